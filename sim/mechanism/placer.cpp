// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placer.h"

#include <fmt/format.h>

#include "sim/base/unsuitable.h"

namespace moesim {

std::vector<ExpertMemory> whole_experts(const Placement& placement, const MoeModel& model,
                                        const TrainingState& state) {
  std::vector<ExpertMemory> memory;
  for (int g = 0; g < placement.gpus(); ++g) {
    const std::int64_t parameters = model.expert_parameters() * placement.slots_on(GpuId(g));
    memory.push_back({bytes_of(parameters, model.weights), Bytes(parameters * state.gradient),
                      Bytes(parameters * state.optimizer), Bytes(0)});
  }
  return memory;
}

GroupNodes group_nodes(const PlacementContext& context) {
  const EpGroups& groups = context.groups;
  if (const auto nodes = groups.nodes()) return *nodes;
  const int host = groups.gpus_per_host();
  if (host == 0) {
    throw Unsuitable(
        fmt::format("'{}' needs hosts of equally many consecutive GPUs, which '{}' has not",
                    context.who, groups.cluster()));
  }
  throw Unsuitable(
      fmt::format("'{}' cannot spread EP groups of {} ranks evenly over hosts of {} GPUs",
                  context.who, groups.size(), host),
      "an ep that divides the GPUs of a host, or is a multiple of them");
}

}  // namespace moesim
