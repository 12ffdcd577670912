// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/c2r.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

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

std::vector<ExpertId> c2r_route(std::span<const float> scores, const Partners& partners, int top_k,
                                int top_t) {
  const int experts = static_cast<int>(scores.size());
  if (top_k < 1 || top_t < top_k - 1 || top_t > experts - 1 || partners.size() != scores.size()) {
    throw Error(fmt::format("top {} of {} experts among {} partners", top_k, experts, top_t),
                "top_t lies between top_k - 1 and experts - 1");
  }
  const ExpertId first(std::max_element(scores.begin(), scores.end()) - scores.begin());
  const auto& order = partners[first.index()];
  std::vector<ExpertId> others(order.begin(), order.begin() + top_t);
  std::sort(others.begin(), others.end(), [&](ExpertId a, ExpertId b) {
    return scores[a.index()] != scores[b.index()] ? scores[a.index()] > scores[b.index()] : a < b;
  });
  others.resize(static_cast<std::size_t>(top_k - 1));
  others.insert(others.begin(), first);
  return others;
}

}  // namespace moesim
