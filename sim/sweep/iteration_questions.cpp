// SPDX-License-Identifier: Apache-2.0
// What people ask about whole iterations, as axes.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/sweep/questions.h"

namespace moesim {
namespace {

constexpr int most_stages = 64, most_chunks = 8;

struct AskedIteration {
  IterationSpec spec;
  int gpus, gpus_of_host, layers;
  bool dense;
};

AskedIteration iteration_of(const SweepGrid& grid, const std::string& question) {
  const Scenario scenario = grid.unit(0);
  if (!scenario.iteration) {
    throw Error(fmt::format("--ask {}: the scenario is one of steps", question),
                "a scenario with 'batch' is one of iterations, or: --global-batch N --sequence N");
  }
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  const Topology& topology = inputs.clusters[0].topology;
  return {*scenario.iteration, topology.gpu_count(), topology.gpu_count() / topology.host_count(),
          inputs.model.layers, inputs.model.experts == 0};
}

/// Of the GPUs of a host, as such groups exchange in every layer.
std::vector<SweepAxis> tensor_sizes(const SweepGrid& grid) {
  const AskedIteration of = iteration_of(grid, "tp");
  std::vector<std::string> sizes;
  for (int tp = 1; tp <= of.gpus_of_host; tp *= 2) {
    if (of.gpus % (tp * of.spec.parallel.cp) == 0 && of.spec.sequence % tp == 0)
      sizes.push_back(std::to_string(tp));
  }
  return {axis_of("parallel.tp", sizes)};
}

/// The scenario's schedule, for several chunks of layers per stage or for one.
std::string schedule_with(PipelineKind own, bool chunks) {
  const bool combined = own == PipelineKind::combined || own == PipelineKind::combined_interleaved;
  if (chunks) {
    return name_of(combined ? PipelineKind::combined_interleaved : PipelineKind::interleaved);
  }
  if (own == PipelineKind::interleaved) return name_of(PipelineKind::one_f_one_b);
  return name_of(combined ? PipelineKind::combined : own);
}

/// Stages and the chunks of layers of each; both change which layers a GPU holds.
std::vector<SweepAxis> pipelines(const SweepGrid& grid) {
  const AskedIteration of = iteration_of(grid, "pp");
  if (!of.spec.layout.empty()) {
    throw Error("--ask pp: 'parallel.layout' says where every layer is",
                "leave it out to ask about other numbers of stages");
  }
  SweepAxis axis{"pp x vpp", false, {}};
  for (int pp = 1; pp <= std::min(most_stages, of.layers) && of.gpus % pp == 0; pp *= 2) {
    if (of.spec.pipeline == PipelineKind::dualpipe && pp == 1) continue;
    for (int vpp = 1; vpp <= most_chunks && pp * vpp <= of.layers; vpp *= 2) {
      if (vpp > 1 && pp == 1) break;
      axis.points.push_back({fmt::format("{} x {}", pp, vpp),
                             {{"parallel.pp", std::to_string(pp), ""},
                              {"parallel.vpp", std::to_string(vpp), ""},
                              {"pipeline", schedule_with(of.spec.pipeline, vpp > 1), ""}}});
    }
  }
  return {axis};
}

std::vector<SweepAxis> overlaps(const SweepGrid& grid) {
  const AskedIteration of = iteration_of(grid, "overlap");
  const auto point = [](const char* text, bool gradients, bool parameters) {
    const auto word = [](bool on) { return std::string(on ? "true" : "false"); };
    return AxisPoint{
        text,
        {{"overlap.gradients", word(gradients), ""}, {"overlap.parameters", word(parameters), ""}}};
  };
  SweepAxis axis{"overlap", false, {point("nothing", false, false)}};
  axis.points.push_back(point("gradients", true, false));
  if (of.spec.zero > 0) axis.points.push_back(point("gradients, parameters", true, true));
  return {axis};
}

/// From nothing to everything; a dispatch that runs again cannot be merged with another pass.
std::vector<SweepAxis> recomputations(const SweepGrid& grid) {
  const AskedIteration of = iteration_of(grid, "recompute");
  if (of.dense) return {axis_of("recompute", {"none", "core_attn", "mlp", "full"})};
  std::vector<std::string> modules = {"none", "core_attn", "moe_act", "layernorm"};
  if (!(merges_passes(of.spec.pipeline) && of.spec.overlap.all_to_all)) {
    modules.insert(modules.end(), {"moe", "full"});
  }
  return {axis_of("recompute", modules)};
}

}  // namespace

std::vector<Question> iteration_questions() {
  return {{"tp", tensor_sizes},
          {"pp", pipelines},
          {"overlap", overlaps},
          {"recompute", recomputations}};
}

}  // namespace moesim
