// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/phases.h"

#include <map>
#include <utility>

namespace moesim {

std::vector<std::vector<OpId>> exchange_phases(const Plan& plan) {
  using Phase = std::pair<OpKey, std::size_t>;  // with the repetition
  std::vector<std::vector<OpId>> phases;
  std::map<Phase, std::size_t> index_of;
  std::map<std::pair<Phase, GpuId>, std::size_t> repetitions;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr) continue;
    Phase phase{op.key, 0};
    const GpuId first = op.group.empty() ? GpuId(-1) : op.group.front();
    const std::size_t repetition = repetitions[{phase, first}]++;
    phase.second = op.key.layer < 0 ? i : repetition;
    const auto [at, added] = index_of.try_emplace(phase, phases.size());
    if (added) phases.emplace_back();
    phases[at->second].push_back(OpId(static_cast<std::int64_t>(i)));
  }
  return phases;
}

bool is_minimum_time(const Op& op) { return op.key.kind == OpKind::minimum_time; }

}  // namespace moesim
