// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/least_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/rounding.h"
#include "sim/base/units.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/stage_layers.h"
#include "sim/planner/iteration/stage_parameters.h"
#include "sim/planner/layer/expert_tensors.h"

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

}  // namespace

const char* const hint_of_iterations =
    "more pipeline stages, tensor-parallel GPUs, replicas with zero: 1, recompute, or smaller "
    "micro batches; or memory: ignore";

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
    return std::int64_t{shape.grid.size(axis) / spec.spec.dp_replicate};
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
                       const GpuModels& gpus, const std::string& policy) {
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
      hint_of_iterations);
}

}  // namespace moesim
