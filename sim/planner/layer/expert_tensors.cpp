// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/expert_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/unsuitable.h"

namespace moesim {

MoeModel with_parts_of_experts(MoeModel model, int etp) {
  if (model.expert_ffn % etp != 0) {
    throw Error(
        fmt::format("experts of width {} cannot be divided over etp = {}", model.expert_ffn, etp),
        "etp must divide expert_ffn");
  }
  model.expert_ffn /= etp;
  return model;
}

std::vector<Group> tensor_groups(const EpGroups& groups, const TensorSharers& sharers) {
  std::vector<Group> result;
  for (const auto& list : sharers) {
    for (int r = 0; r < groups.size(); ++r) {
      std::vector<GpuId> gpus;
      for (const int group : list) gpus.push_back(groups.gpu(group, GpuId(r)));
      result.emplace_back(std::move(gpus));
    }
  }
  return result;
}

LoadMatrix joint_loads(const LoadMatrix& loads, const EpGroups& groups,
                       const TensorSharers& sharers) {
  if (loads.sources() == 0 || sharers.empty()) return loads;
  LoadMatrix joint(loads.sources(), loads.experts());
  for (const Group& sharing : tensor_groups(groups, sharers)) {
    for (const GpuId to : sharing) {
      for (const GpuId from : sharing) {
        for (ExpertId e(0); e.value < loads.experts(); ++e.value) {
          joint.at(to, e) += loads.at(from, e);
        }
      }
    }
  }
  return joint;
}

namespace {

/// Whether every choice of a rank goes to the next slot of its expert in turn, however many it
/// makes.
bool takes_turns(const Assignment& assignment) {
  const Placement& placement = assignment.placement();
  for (GpuId gpu(0); gpu.value < placement.gpus(); ++gpu.value) {
    for (ExpertId e(0); e.value < placement.experts(); ++e.value) {
      const auto shares = assignment.shares(gpu, e);
      const auto in_turn = [](const Share& share) { return share.count == 1; };
      if (shares.size() > 1 && !std::ranges::all_of(shares, in_turn)) return false;
    }
  }
  return true;
}

}  // namespace

void check_shared(const LayerDecision& decision, const EpGroups& groups,
                  const TensorSharers& sharers) {
  if (sharers.empty()) return;
  const char* hint = "with etp > 1, a placement that decides only from counts of tokens";
  if (decision.assignment.split() && !takes_turns(decision.assignment)) {
    throw Unsuitable("every rank has quotas of its own for the replicas of an expert, but etp > 1",
                     hint);
  }
  if (decision.gradients == GradientLayout::summed) {
    throw Unsuitable("experts are divided over all EP groups, but etp > 1",
                     "etp = 1, or a placement within EP groups");
  }
  const SlotTable table = decision.assignment.placement().table();
  for (const auto& list : sharers) {
    for (const int group : list) {
      if (groups.part(table, group) == groups.part(table, list.front())) continue;
      throw Unsuitable(
          "GPUs that hold parts of the same experts (etp > 1) were given different ones", hint);
    }
  }
}

}  // namespace moesim
