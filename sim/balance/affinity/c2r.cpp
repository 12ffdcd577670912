// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/c2r.h"

#include <algorithm>

namespace moesim {

Partners c2r_partners(const PairMatrix& co) {
  Partners partners;
  for (int i = 0; i < co.experts(); ++i) {
    const ExpertId self(i);
    std::vector<ExpertId> order;
    for (int e = 0; e < co.experts(); ++e) {
      if (e != i) order.emplace_back(e);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](ExpertId a, ExpertId b) { return co.at(self, a) > co.at(self, b); });
    order.push_back(self);
    partners.push_back(std::move(order));
  }
  return partners;
}

}  // namespace moesim
