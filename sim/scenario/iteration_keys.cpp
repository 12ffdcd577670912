// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/iteration_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace moesim {
namespace {

/// What the interleaved all-to-alls of Megatron-Core's combined 1F1B exclude (arXiv 2603.07685).
void check_combined(const YamlMap& scenario, const IterationSpec& spec) {
  const auto pipeline = scenario.find("pipeline");
  const bool combined = spec.pipeline == PipelineKind::combined ||
                        spec.pipeline == PipelineKind::combined_interleaved;
  if (!combined || !spec.overlap.all_to_all || !scenario.good({"recompute", "parallel"})) return;
  const std::string name = fmt::format("'pipeline: {}'", name_of(spec.pipeline));
  if (spec.parallel.ep == 1) {
    pipeline->error(name + " with ep = 1", "it overlaps all-to-alls between experts: ep > 1");
  }
  if (spec.recompute.has(RecomputeModule::moe)) {
    const bool all = spec.recompute.has(RecomputeModule::full);
    const auto recompute = scenario.find("recompute");
    (recompute ? recompute : pipeline)
        ->error(fmt::format("'recompute: {}' with {}", all ? "full" : "moe", name),
                "a layer whose dispatch runs again in the backward pass cannot be interleaved");
  }
}

/// Mistakes in what the scenario itself says of it.
void check_overlap(const YamlMap& scenario, const YamlMap& map, const IterationSpec& spec) {
  if (!scenario.good({"pipeline", "zero"})) return;
  const OverlapSpec& overlap = spec.overlap;
  if (overlap.all_to_all && !merges_passes(spec.pipeline)) {
    map.find("all_to_all")
        ->error(fmt::format("'overlap.all_to_all' with 'pipeline: {}'", name_of(spec.pipeline)),
                "combined-1f1b, combined-interleaved, dualpipe and dualpipev merge passes");
  } else if (overlap.delay_wgrad && !overlap.all_to_all) {
    map.find("delay_wgrad")
        ->error("'overlap.delay_wgrad' without 'overlap.all_to_all'",
                "delayed weight gradients run during the all-to-alls of a merged pair");
  }
  if (overlap.parameters && !(overlap.gradients && spec.zero > 0)) {
    map.find("parameters")
        ->error("'overlap.parameters' without 'overlap.gradients', or with 'zero: 0'",
                "parameters are gathered where ZeRO has scattered them: overlap both");
  }
}

}  // namespace

void read_replay(const YamlMap& scenario, IterationSpec& spec) {
  if (const auto value = scenario.find("microbatches")) {
    spec.distinct_microbatches = static_cast<int>(value->map().integer("distinct", {1, 1 << 20}));
  }
  const auto value = scenario.find("routing");
  if (!value) return;
  spec.routing.clear();
  const auto items = value->is_list() ? value->list() : std::vector<YamlValue>{*value};
  if (items.empty()) value->error("'routing' is an empty list");
  for (const YamlValue& item : items) {
    const auto source = static_cast<RoutingSource>(item.choice(routing_source_names));
    // A wrong word reads as the first source, which would then seem to be there twice.
    if (std::ranges::find(spec.routing, source) != spec.routing.end() &&
        scenario.good({"routing"})) {
      item.error(fmt::format("'routing' has '{}' twice", item.string()));
    }
    spec.routing.push_back(source);
  }
}

void read_overlap(const YamlMap& scenario, const Software& software, IterationSpec& spec) {
  std::optional<YamlMap> map;
  if (const auto value = scenario.find("overlap")) map = value->map();
  const auto said = [&](const char* key, bool absent) {
    return map ? map->boolean(key, absent) : absent;
  };
  OverlapSpec& overlap = spec.overlap;
  overlap.gradients = said("gradients", software.overlaps_gradients);
  overlap.all_to_all = said("all_to_all", merges_passes(spec.pipeline));
  overlap.delay_wgrad = said("delay_wgrad", false);
  overlap.parameters =
      said("parameters", software.overlaps_parameters && overlap.gradients && spec.zero > 0);
  if (map) check_overlap(scenario, *map, spec);
  check_combined(scenario, spec);
}

}  // namespace moesim
