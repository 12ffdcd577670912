// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/link_classes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace moesim {

/// Exchange by exchange, the links that it uses leave their class, together if it asks the same of
/// them.
LinkClasses::LinkClasses(const PricedPlan& plan) {
  std::vector<const PricedExchange*> exchanges;
  for (OpId op(0); op.index() < plan.plan().ops.size(); ++op.value) {
    const PricedExchange* exchange = plan[op].get();
    if (exchange != nullptr && uses_.try_emplace(exchange).second) exchanges.push_back(exchange);
  }
  std::vector<std::size_t> of(plan.topology().links().size());  // [link] its class
  std::map<std::pair<std::size_t, double>, std::size_t> leave;
  for (const PricedExchange* exchange : exchanges) {
    leave.clear();
    for (const LinkUse& use : exchange->loads.uses) {
      std::size_t& own = of[use.link.index()];
      const auto [to, is_new] = leave.try_emplace({own, use.time.value}, count_);
      if (is_new) ++count_;
      own = to->second;
    }
  }
  std::vector<const PricedExchange*> seen(count_);
  for (const PricedExchange* exchange : exchanges) {
    std::vector<ClassUse>& uses = uses_[exchange];
    for (const LinkUse& use : exchange->loads.uses) {
      const std::size_t own = of[use.link.index()];
      if (std::exchange(seen[own], exchange) != exchange) uses.push_back({own, use.time});
    }
  }
}

}  // namespace moesim
