// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/routing/c2r_partners.h"

#include <algorithm>

#include "sim/base/id_vector.h"

namespace moesim {

Partners c2r_partners(const PairMatrix& co) {
  Partners partners;
  for (const ExpertId self : ids<ExpertId>(co.experts())) {
    std::vector<ExpertId> order;
    for (const ExpertId e : ids<ExpertId>(co.experts())) {
      if (e != self) order.push_back(e);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](ExpertId a, ExpertId b) { return co.at(self, a) > co.at(self, b); });
    order.push_back(self);
    partners.push_back(std::move(order));
  }
  return partners;
}

}  // namespace moesim
