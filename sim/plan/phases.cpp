// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/phases.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace moesim {

std::vector<std::vector<OpId>> exchange_phases(const Plan& plan) {
  // Layer, pass, stage, name and repetition.
  using Phase = std::tuple<int, Pass, Stage, std::string, std::size_t>;
  std::vector<std::vector<OpId>> phases;
  std::map<Phase, std::size_t> index_of;
  std::map<std::pair<Phase, GpuId>, std::size_t> repetitions;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr) continue;
    Phase phase{op.layer, op.pass, op.stage, op.name, 0};
    const auto& members = exchange->participants;
    const GpuId first = members.empty() ? GpuId(-1) : members.front();
    const std::size_t repetition = repetitions[{phase, first}]++;
    std::get<std::size_t>(phase) = op.layer < 0 ? i : repetition;
    const auto [at, added] = index_of.try_emplace(phase, phases.size());
    if (added) phases.emplace_back();
    phases[at->second].push_back(OpId(static_cast<std::int64_t>(i)));
  }
  return phases;
}

bool is_minimum_time(const Op& op) {
  const bool of_tokens = op.stage == Stage::dispatch || op.stage == Stage::combine;
  return of_tokens && op.lane == Lane::copy && op.compute() != nullptr &&
         std::holds_alternative<HostWork>(op.compute()->kernel);
}

}  // namespace moesim
