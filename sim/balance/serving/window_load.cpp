// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/serving/window_load.h"

namespace moesim {

void WindowLoad::add(const LoadMatrix& loads) {
  passes_.push_back(loads.per_expert());
  for (std::size_t e = 0; e < sum_.size(); ++e) sum_[e] += passes_.back()[e];
  if (passes_.size() <= window_) return;
  for (std::size_t e = 0; e < sum_.size(); ++e) sum_[e] -= passes_.front()[e];
  passes_.pop_front();
}

}  // namespace moesim
