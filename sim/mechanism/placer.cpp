// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placer.h"

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

}  // namespace moesim
