// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/priced.h"

#include "sim/plan/check.h"

namespace moesim {

PricedPlan::PricedPlan(const Plan& plan, const Topology& topology)
    : plan_(plan), topology_(topology), prices_(plan.ops.size()) {
  check_gpus(plan, static_cast<std::size_t>(topology.gpu_count()));
  for (std::size_t op = 0; op < prices_.size(); ++op) {
    const Exchange* exchange = plan.ops[op].exchange();
    if (exchange != nullptr) prices_[op] = price(topology, exchange->traffic);
  }
}

PricedPlan::PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops)
    : plan_(part), topology_(whole.topology_) {
  for (const OpId op : ops) prices_.push_back(whole[op]);
}

}  // namespace moesim
