// SPDX-License-Identifier: Apache-2.0
// Reads the keys of an iteration, and says which rule a combination of them breaks.
#include "sim/scenario/iteration_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/planner/parallel/layout_text.h"
#include "sim/scenario/iteration_keys.h"
#include "sim/scenario/module_reader.h"
#include "sim/scenario/serving_reader.h"

namespace moesim {

const std::vector<std::string> iteration_keys = {
    "parallel",          "batch",   "pipeline",     "recompute", "zero",         "precision",
    "overlap",           "routing", "microbatches", "optimizer", "update_bytes", "collective",
    "fused_grouped_mlp", "host",    "software",     "serving",   "paged_stash",  "offload"};

bool is_iteration_key(const std::string& path) {
  const std::string key = path.substr(0, path.find_first_of(".="));
  if (path.starts_with("software.")) return false;  // a change of that input
  return std::ranges::find(iteration_keys, key) != iteration_keys.end();
}

namespace {

constexpr Range degree{1, 1 << 20};

int small_integer(const YamlMap& map, const std::string& key, Range range, int absent) {
  return static_cast<int>(map.integer(key, range, absent));
}

/// Records the first mistake that `check` throws at the value.
template <class Check>
void said_at(const YamlValue& value, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    const Diagnostic& d = error.diagnostics().front();
    const std::string place = d.column > 0 ? fmt::format(", character {}", d.column) : "";
    value.error(fmt::format("'{}'{}: {}", value.path(), place, d.message), d.hint);
  }
}

/// The chunks that a layout has; mistakes are recorded.
int chunks_of_layout(const YamlValue& layout, int pp) {
  int chunks = 1;
  said_at(layout, [&] {
    const auto positions = static_cast<int>(unroll_layout(layout.string()).size());
    if (positions % pp != 0) {
      throw Error(fmt::format("{} virtual stages, which pp = {} does not divide", positions, pp));
    }
    chunks = positions / pp;
  });
  return chunks;
}

void read_layers_of_stages(const YamlMap& map, IterationSpec& spec) {
  ParallelSizes& sizes = spec.parallel;
  const auto layout = map.find("layout");
  if (layout) spec.layout = layout->string();
  if (layout && map.good({"layout", "pp"})) sizes.vpp = chunks_of_layout(*layout, sizes.pp);
  for (const char* key : {"first_stage_layers", "last_stage_layers"}) {
    const auto value = map.find(key);
    if (!value) continue;
    const auto layers = static_cast<int>(value->integer({0, 1 << 20}));
    (std::string(key) == "first_stage_layers" ? spec.first_stage_layers : spec.last_stage_layers) =
        layers;
  }
  spec.embedding_as_layer = map.boolean("embedding_as_layer", false);
  spec.loss_as_layer = map.boolean("loss_as_layer", false);
  for (const char* key :
       {"vpp", "first_stage_layers", "last_stage_layers", "embedding_as_layer", "loss_as_layer"}) {
    const auto value = map.find(key);
    if (!value || !layout) continue;
    value->error(fmt::format("'{}' together with 'parallel.layout'", value->path()),
                 "a layout says where every layer is");
  }
}

void read_parallel(const YamlMap& map, IterationSpec& spec) {
  ParallelSizes& sizes = spec.parallel;
  sizes.tp = small_integer(map, "tp", degree, 1);
  sizes.cp = small_integer(map, "cp", degree, 1);
  sizes.pp = small_integer(map, "pp", degree, 1);
  sizes.vpp = small_integer(map, "vpp", degree, 1);
  sizes.ep = small_integer(map, "ep", degree, 1);
  if (const auto etp = map.find("etp")) sizes.etp = static_cast<int>(etp->integer(degree));
  if (const auto dp = map.find("dp")) sizes.dp = static_cast<int>(dp->integer(degree));
  spec.dp_replicate = small_integer(map, "dp_replicate", degree, 1);
  if (const auto order = map.find("order")) {
    sizes.order = order->string();
    if (map.good({"order"})) said_at(*order, [&] { check_axis_order(sizes.order); });
  }
  read_layers_of_stages(map, spec);
  if (sizes.vpp > 1 && sizes.pp == 1 && map.good({"vpp", "pp", "layout"})) {
    const auto value = map.find("layout") ? map.find("layout") : map.find("vpp");
    value->error(
        fmt::format("'{}' makes {} of one stage", value->path(), counted(sizes.vpp, "chunk")),
        "several chunks need pp > 1");
  }
}

/// The schedule, against the stages and chunks that it is to run.
void read_pipeline(const YamlMap& scenario, IterationSpec& spec) {
  ParallelSizes& sizes = spec.parallel;
  const auto value = scenario.find("pipeline");
  if (!value) {
    if (sizes.vpp > 1) spec.pipeline = PipelineKind::interleaved;
    return;
  }
  spec.pipeline = static_cast<PipelineKind>(value->choice(pipeline_kind_names()));
  if (!scenario.good({"pipeline", "parallel"})) return;
  const std::string& name = name_of(spec.pipeline);
  const std::string chunks = fmt::format("'pipeline: {}' with {} chunk{} per stage", name,
                                         sizes.vpp, sizes.vpp == 1 ? "" : "s");
  if (spec.pipeline == PipelineKind::interleaved ||
      spec.pipeline == PipelineKind::combined_interleaved) {
    if (sizes.vpp < 2) {
      value->error(chunks, "vpp >= 2 makes several; 1f1b and combined-1f1b have one");
    }
    return;
  }
  // The two chunks that a stage of a V holds are its schedule's own.
  const bool v = is_v(spec.pipeline) && !spec.layout.empty();
  if (sizes.vpp != (v ? 2 : 1)) {
    value->error(chunks, v ? "a layout for a V has 2 x pp virtual stages"
                           : "interleaved and combined-interleaved have several");
  }
  sizes.vpp = 1;
  if (spec.pipeline == PipelineKind::dualpipe && sizes.pp % 2 != 0) {
    value->error(fmt::format("'pipeline: dualpipe' with pp = {}", sizes.pp),
                 "pp must be even: the stages of one half mirror those of the other");
  }
}

void read_batch(const YamlMap& map, IterationSpec& spec) {
  spec.global_batch = static_cast<int>(map.integer("global", {1, 1 << 30}));
  spec.micro_batch = small_integer(map, "micro", degree, 1);
  spec.sequence = static_cast<int>(map.integer("sequence", {1, 1 << 30}));
  const ParallelSizes& sizes = spec.parallel;
  const std::int64_t at_once = std::int64_t{spec.micro_batch} * sizes.dp.value_or(1);
  if (map.good({"global", "micro"}) && spec.global_batch % at_once != 0) {
    map.find("global")->error(
        fmt::format("'batch.global' is {} with micro batches of {}{}", spec.global_batch,
                    spec.micro_batch, sizes.dp ? fmt::format(" for dp = {}", *sizes.dp) : ""),
        "micro x dp must divide the global batch");
  }
  const std::int64_t shares = std::int64_t{sizes.tp} * sizes.cp;
  const std::int64_t halves = sizes.cp > 1 ? 2 * std::int64_t{sizes.cp} : 1;
  if (map.good({"sequence"}) && (spec.sequence % shares != 0 || spec.sequence % halves != 0)) {
    map.find("sequence")
        ->error(fmt::format("'batch.sequence' is {} with tp = {} and cp = {}", spec.sequence,
                            sizes.tp, sizes.cp),
                "tp x cp must divide it, and 2 x cp where cp > 1: each takes an early and a late "
                "part, so that the causal mask gives all the same work");
  }
}

/// Who shares state in groups needs state that is shared, by whole copies of the pipeline.
void check_replicate(const YamlMap& scenario, const IterationSpec& spec) {
  const auto parallel = scenario.find("parallel");
  if (spec.dp_replicate == 1 || !parallel || !parallel->is_map()) return;
  const auto value = parallel->map_or_empty().find("dp_replicate");
  if (!value || !scenario.good({"zero", "optimizer", "pipeline"})) return;
  const auto refuse = [&](bool broken, const std::string& what, const char* hint) {
    if (broken) value->error(fmt::format("'{}' with {}", value->path(), what), hint);
  };
  refuse(spec.zero == 0, "'zero: 0'", "zero: 1, 2 or 3: with 0 every replica holds all state");
  refuse(spec.optimizer == OptimizerKind::muon, "'optimizer: muon'",
         "adam: with muon matrices are dealt out to all replicas");
  refuse(spec.pipeline == PipelineKind::dualpipe, "'pipeline: dualpipe'",
         "dualpipev: both of dualpipe's copies of a stage share state already");
}

void read_state(const YamlMap& scenario, const Software& software, IterationSpec& spec) {
  spec.zero = small_integer(scenario, "zero", {0, 3}, software.zero_with(spec.parallel.pp));
  if (const auto value = scenario.find("precision")) spec.precision = read_precision(*value);
  if (const auto value = scenario.find("optimizer")) {
    spec.optimizer = static_cast<OptimizerKind>(value->choice(optimizer_names));
    if (spec.optimizer == OptimizerKind::muon && spec.zero > 1 && scenario.good({"zero"})) {
      value->error(fmt::format("'optimizer: muon' with 'zero: {}'", spec.zero),
                   "zero: 0 or 1: it needs whole matrices, and whole gradients of them");
    }
  }
  spec.update_bytes = small_integer(scenario, "update_bytes", {0, 1024}, software.update_bytes);
  if (const auto value = scenario.find("collective")) {
    spec.collective = static_cast<ReplicaCollective>(value->choice(replica_collective_names));
    if (spec.collective == ReplicaCollective::tree && spec.zero > 0 && scenario.good({"zero"})) {
      value->error(fmt::format("'collective: tree' with 'zero: {}'", spec.zero),
                   "trees sum whole gradients, as zero: 0 has them; ZeRO scatters them");
    }
  }
  const auto recompute = scenario.find("recompute");
  spec.recompute = recompute ? read_recompute(*recompute) : software.recompute;
  if (const auto value = scenario.find("paged_stash")) spec.stash = read_paged_stash(*value);
  read_fused_grouped_mlp(scenario, spec);
  read_offload(scenario, spec);
  check_replicate(scenario, spec);
}

SpecPlaces places_of(const YamlMap& scenario, const std::string& file) {
  const auto line = [&](const char* key) {
    const auto value = scenario.find(key);
    return value ? value->line() : 0;
  };
  return {file,          line("parallel"),  line("pipeline"),
          line("batch"), line("precision"), line("offload")};
}

/// `parallel.ep` and the key `ep` that steps have are one.
void read_ep(const YamlMap& scenario, bool flagged, IterationSpec& spec) {
  const auto ep = scenario.find("ep");
  if (!ep) return;
  const auto parallel = scenario.find("parallel");
  if (!flagged && parallel && parallel->is_map() && parallel->map_or_empty().find("ep")) {
    ep->error("'ep' together with 'parallel.ep'", "leave one of them out");
  }
  spec.parallel.ep = static_cast<int>(ep->integer(degree));
}

/// What iterations and passes of serving have in common.
void read_common(const YamlMap& scenario, const Software& software, IterationSpec& spec) {
  read_replay(scenario, spec);
  if (const auto host = scenario.find("host")) spec.host = read_host_model(*host, software.host);
  scenario.find("software");  // read before all others, whose defaults it has
  for (const char* key : {"tokens_per_rank", "accumulate", "pass", "attention"}) {
    const auto value = scenario.find(key);
    if (!value) continue;
    value->error(fmt::format("'{}' is of steps, and this is a {}", key,
                             spec.serving ? "pass of serving" : "whole iteration"),
                 spec.serving ? "'serving.batch' says its tokens"
                              : "'batch' and 'parallel' say its tokens and passes");
  }
}

}  // namespace

bool is_iteration(const YamlMap& scenario) {
  return scenario.find("parallel") || scenario.find("batch") || is_serving(scenario);
}

std::optional<IterationSpec> read_iteration(const YamlMap& scenario, bool ep_flagged,
                                            const std::string& file, const Software& software) {
  const auto parallel = scenario.find("parallel");
  if (!is_iteration(scenario)) {
    for (const std::string& key : iteration_keys) {
      const auto value = scenario.find(key);
      if (!value) continue;
      value->error(
          fmt::format("'{}' belongs to a whole iteration", key),
          "a scenario with 'parallel' and 'batch' is one, one with 'serving' is a pass of a "
          "serving engine");
    }
    return std::nullopt;
  }
  IterationSpec spec;
  spec.places = places_of(scenario, file);
  if (parallel) read_parallel(parallel->map(), spec);
  read_ep(scenario, ep_flagged, spec);
  if (is_serving(scenario)) {
    read_serving(scenario, spec);
    read_common(scenario, software, spec);
    return spec;
  }
  read_pipeline(scenario, spec);
  if (const auto sizes = scenario.get("batch")) read_batch(sizes->map(), spec);
  read_state(scenario, software, spec);
  read_overlap(scenario, software, spec);
  read_common(scenario, software, spec);
  return spec;
}

int default_optimizer_bytes(const std::optional<IterationSpec>& spec, const Software& software) {
  constexpr int moment = 4;
  const bool one = spec && spec->optimizer == OptimizerKind::muon;
  return std::max(software.optimizer_bytes - (one ? moment : 0), 0);
}

}  // namespace moesim
