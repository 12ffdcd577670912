// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/least_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/rounding.h"
#include "sim/base/units.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/stage_layers.h"
#include "sim/planner/iteration/stage_parameters.h"
#include "sim/planner/layer/expert_tensors.h"
#include "sim/planner/layer/layer_planner.h"

namespace moesim {
namespace {

/// What the chunks of a stage hold.
struct StageParameters {
  std::int64_t dense = 0;   // on a GPU
  std::int64_t routed = 0;  // in an EP group, in parts of experts if tensors are divided
};

StageParameters parameters_of(const IterationShape& shape, int stage, const MoeModel& model) {
  const MoeModel parts_of_experts =
      with_parts_of_experts(model, shape.grid.size(ParallelAxis::etp));
  const bool whole = model.missing_of_whole().empty();
  StageParameters sums;
  for (int chunk = 0; chunk < shape.pipeline.chunks(); ++chunk) {
    for (const StagePart& part : shape.layers.parts(shape.pipeline.position_of({stage, chunk}))) {
      if (whole) sums.dense += dense_parameters(model, shape.grid.size(ParallelAxis::tp), part);
      const int number = layer_number(model, part);
      if (number < 0 || !model.is_moe_layer(number)) continue;
      sums.routed += model.experts * parts_of_experts.expert_parameters();
    }
  }
  return sums;
}

/// The largest degree of expert parallelism that the other sizes leave; 1 of dense models.
int largest_ep(const Grid& grid, const MoeModel& model) {
  if (model.experts == 0) return 1;
  return default_ep(grid.gpus() / (grid.size(ParallelAxis::etp) * grid.stages()), model.experts);
}

}  // namespace

std::string hint_of_memory(const Spec& spec, const Grid& grid, const MoeModel& model) {
  if (spec.serves()) {
    return "fewer sequences or shorter contexts per rank, serving.kv: fp8, serving.precision: fp8, "
           "more GPUs or a larger ep, fewer redundant experts; or memory: ignore";
  }
  const IterationSpec& has = spec.spec;
  std::vector<std::string> help;
  if (const int most = largest_ep(grid, model); most > grid.size(ParallelAxis::ep)) {
    help.push_back(fmt::format("ep up to {} (it is {})", most, grid.size(ParallelAxis::ep)));
  }
  if (grid.size(ParallelAxis::dp) == 1) help.emplace_back("more GPUs");
  if (grid.size(ParallelAxis::dp) > 1) {
    if (grid.stages() < model.layers) help.emplace_back("more pipeline stages");
    help.emplace_back("tensor-parallel GPUs");
  }
  const bool shares =
      grid.size(ParallelAxis::dp_cp) * stage_copies(has.pipeline) > has.dp_replicate;
  const bool whole = by_muon(spec) || has.pipeline == PipelineKind::dualpipe;
  if (shares && has.zero < (whole ? 1 : 3)) {
    help.push_back(fmt::format("zero: {}", has.zero == 0 ? "1" : has.zero == 1 ? "2 or 3" : "3"));
  }
  if (!has.recompute.has(RecomputeModule::full)) {
    help.push_back(has.recompute.empty() ? "recompute" : "recompute: full");
  }
  if (has.micro_batch > 1) help.emplace_back("smaller micro batches");
  help.emplace_back("shorter sequences");
  return fmt::format("{}; or memory: ignore", fmt::join(help, ", "));
}

bool by_muon(const Spec& spec) {
  return !spec.serves() && spec.spec.optimizer == OptimizerKind::muon;
}

MemoryUse state_of_dense(std::int64_t parameters, std::int64_t replicas, const MoeModel& model,
                         const Spec& spec) {
  const auto part = [&](std::int64_t bytes, int from) {
    return Bytes(shared_by(bytes, spec.spec.zero >= from ? replicas : 1));
  };
  MemoryUse use;
  use.of(MemoryPart::weights) = part(bytes_of(parameters, model.other_weights()).value, 3);
  use.of(MemoryPart::gradients) = part(parameters * spec.state.gradient, 2);
  if (by_muon(spec)) return use;
  use.of(MemoryPart::optimizer) = part(parameters * spec.state.optimizer, 1);
  return use;
}

std::vector<MemoryUse> least_state(const Spec& spec, const IterationShape& shape,
                                   const MoeModel& model, bool divides_experts) {
  const auto sharers = [&](ParallelAxis axis) {
    return std::int64_t{shape.grid.size(axis) / spec.spec.dp_replicate * shape.pipeline.copies()};
  };
  const std::int64_t ranks = shape.grid.size(ParallelAxis::ep);
  const auto part = [&](std::int64_t bytes, int from) {  // rounded down: a mean of GPUs
    return Bytes(bytes / (spec.spec.zero >= from ? sharers(ParallelAxis::edp) : 1) / ranks);
  };
  std::vector<MemoryUse> stages;
  for (int stage = 0; stage < shape.grid.stages(); ++stage) {
    const auto [dense, routed] = parameters_of(shape, stage, model);
    MemoryUse& use =
        stages.emplace_back(state_of_dense(dense, sharers(ParallelAxis::dp_cp), model, spec));
    if (divides_experts) continue;
    use.of(MemoryPart::weights) += part(bytes_of(routed, model.weights).value, 3);
    use.of(MemoryPart::gradients) += part(routed * spec.state.gradient, 2);
    if (!by_muon(spec)) use.of(MemoryPart::optimizer) += part(routed * spec.state.optimizer, 1);
  }
  return stages;
}

void check_least_state(const std::vector<MemoryUse>& stages, const Grid& grid,
                       const GpuModels& gpus, const std::string& policy, const std::string& hint) {
  std::size_t worst = 0;
  Bytes excess(0), there;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Bytes most;
    for (const GpuId gpu : grid.stage(static_cast<int>(stage))) {
      most = std::max(most, gpus[gpu.index()]->memory);
    }
    const Bytes over = stages[stage].total() + most * -1;
    if (over > excess) excess = over, worst = stage, there = most;
  }
  if (excess == Bytes(0)) return;
  throw Unsuitable(
      fmt::format("policy '{}' needs at least {} all the time in pipeline stage {}, whose GPUs "
                  "have {} for tensors: {} too much ({})",
                  policy, to_string(stages[worst].total()), worst, to_string(there),
                  to_string(excess), text_of_parts(stages[worst])),
      hint);
}

}  // namespace moesim
