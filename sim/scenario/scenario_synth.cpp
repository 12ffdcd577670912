// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/figures.h"
#include "sim/base/wire.h"
#include "sim/scenario/input_cache.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {
namespace {

/// What all policies have by default; if they differ, the default of plain placements.
int unstated_ep(const Inputs& inputs, int gpus) {
  const int experts = inputs.trace.info().experts;
  const int first = default_ep(inputs.systems.front(), gpus, experts);
  const auto same = [&](const SystemSpec& s) { return default_ep(s, gpus, experts) == first; };
  return std::ranges::all_of(inputs.systems, same) ? first : default_ep(gpus, experts);
}

int choose_ep(const Scenario& scenario, const Inputs& inputs, int gpus) {
  if (!scenario.ep) return unstated_ep(inputs, gpus);
  const int ep = *scenario.ep;
  if (gpus % ep != 0) {
    throw Error(fmt::format("'ep' is {}: it must divide {}", ep, counted(gpus, "GPU")),
                fmt::format("ep {} fits", default_ep(gpus, inputs.trace.info().experts)));
  }
  return ep;
}

/// The first counted step, `total` steps being there. A range of `steps` begins where it says, with
/// the warm-up before it; otherwise the warm-up is taken from all steps.
int first_step(const Scenario& scenario, std::int64_t total) {
  if (scenario.steps.last >= 0) return scenario.steps.first;
  if (scenario.warmup < total) return scenario.warmup;
  throw Error(fmt::format("'warmup' is {}, and the trace makes {}: none is left to count",
                          scenario.warmup, counted(total, "step")),
              "a smaller tokens_per_rank, or repeat, makes more steps");
}

/// Cuts the trace into batches, once for scenarios that do so alike.
SomeBatches batches_of(const Scenario& scenario, const Inputs& inputs, int gpus,
                       InputCache& cache) {
  const BatchOptions options{gpus, scenario.tokens_per_rank, scenario.repeat};
  BatchWindow window;
  if (scenario.steps.last >= 0) {
    window = {std::max(0, scenario.steps.first - scenario.warmup), scenario.steps.last};
  }
  return cache.batches.get(inputs.trace_key + to_bytes(options) + to_bytes(window),
                           [&] { return make_some_batches(inputs.trace, options, window); });
}

/// Takes the warm-up and the counted steps from what was made of the trace.
void keep_steps(const Scenario& scenario, std::int64_t total, ClusterInput& cluster) {
  auto& batches = cluster.batches.batches;
  const StepRange& range = scenario.steps;
  const std::int64_t last = range.last < 0 ? total : range.last;
  if (range.first >= total || last > total) {
    throw Error(
        fmt::format("'steps' asks for step {}, but the trace makes {} on the {} of '{}' (0 to {})",
                    std::max<std::int64_t>(range.first, last - 1), total,
                    counted(cluster.topology.gpu_count(), "GPU"), cluster.file.name, total - 1),
        "a smaller tokens_per_rank, or repeat, makes more steps");
  }
  cluster.first_step = first_step(scenario, total);
  const auto first = batches.begin() + std::min(scenario.warmup, cluster.first_step);
  cluster.warmup.assign(batches.begin(), first);
  batches.erase(batches.begin(), first);
}

void fit(const Scenario& scenario, const Inputs& inputs, ClusterInput& cluster, InputCache& cache) {
  const int gpus = cluster.topology.gpu_count();
  cluster.ep = choose_ep(scenario, inputs, gpus);
  SomeBatches some = batches_of(scenario, inputs, gpus, cache);
  cluster.batches = std::move(some.batches);
  keep_steps(scenario, some.count, cluster);
}

std::vector<int> layers_for(const Scenario& scenario, const MoeModel& model) {
  const std::vector<int>& all = model.moe_layers;
  std::size_t count = scenario.synth->layers.size();
  if (count == 0 && !scenario.layers.empty()) return scenario.layers;
  if (count == 0) count = scenario.recorded_layers ? 1 : all.size();
  if (count > all.size()) {
    throw Error(fmt::format("'synth': {}, and the model '{}' has {} with experts",
                            counted(count, "layer"), model.name, all.size()),
                "leave synth.layers out, and they are the model's");
  }
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

void fit_trace(const Scenario& scenario, Inputs& inputs, InputCache& cache) {
  std::vector<Diagnostic> refusals;
  std::set<std::string> told;
  bool any = false;
  for (ClusterInput& cluster : inputs.clusters) {
    try {
      fit(scenario, inputs, cluster, cache);
      any = true;
    } catch (const Error& e) {
      cluster.unsuitable = e.diagnostics().front().message;
      for (const Diagnostic& d : e.diagnostics()) {
        if (told.insert(d.str()).second) refusals.push_back(d);
      }
    }
  }
  if (!any) throw Error(refusals);
}

void fit_trace(const Scenario& scenario, Inputs& inputs) {
  InputCache cache;
  fit_trace(scenario, inputs, cache);
}

bool is_synth_key(const std::string& change) {
  return change.substr(0, change.find_first_of(".=")) == "synth";
}

std::optional<SynthOptions> synth_in(const YamlMap& scenario, const std::vector<Override>& flags) {
  const bool trace_flagged = std::ranges::find(flags, "trace", &Override::path) != flags.end();
  const bool synth_flagged =
      std::ranges::any_of(flags, [](const Override& flag) { return is_synth_key(flag.path); });
  const auto synth = scenario.find("synth");
  const bool has_trace = scenario.find("trace").has_value();
  if (!synth) return std::nullopt;
  if (has_trace && trace_flagged == synth_flagged) {
    synth->error("'synth' draws a trace, and 'trace' names one", "leave one of them out");
  }
  if (has_trace && trace_flagged) return std::nullopt;
  return read_synth(synth->map());
}

SynthOptions drawn_for(const Scenario& scenario, const MoeModel& model) {
  SynthOptions options = *scenario.synth;
  if (options.experts == 0) options.experts = model.experts;
  if (options.top_k == 0) options.top_k = model.top_k;
  options.layers = layers_for(scenario, model);
  return options;
}

}  // namespace moesim
