// SPDX-License-Identifier: Apache-2.0
#include "sim/report/stage_times.h"

#include "sim/plan/phases.h"
#include "sim/plan/slice.h"

namespace moesim {

StageExchanges exchanges_of_stages(const Plan& plan) {
  StageExchanges exchanges;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const bool tokens = op.key.stage == Stage::dispatch || op.key.stage == Stage::combine;
    const bool moves = op.exchange() != nullptr && carries_tokens(op.stream) && tokens;
    if (!moves && !is_minimum_time(op)) continue;
    exchanges[{op.key.layer, op.key.pass, op.key.stage}].emplace_back(static_cast<std::int64_t>(i));
  }
  return exchanges;
}

Seconds time_alone(const PricedPlan& plan, const std::vector<OpId>& ops,
                   SimulatedBackend& backend) {
  const Plan part = slice(plan.plan(), ops);
  return backend.run(PricedPlan(part, plan, ops)).makespan;
}

}  // namespace moesim
