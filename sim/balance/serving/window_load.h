// SPDX-License-Identifier: Apache-2.0
// The load that balancers over a window of passes see.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/balance/loads.h"

namespace moesim {

/// Loads of one layer's experts summed over the last `window` forward passes.
class WindowLoad {
 public:
  explicit WindowLoad(int experts, int window)
      : window_(static_cast<std::size_t>(window)), sum_(static_cast<std::size_t>(experts)) {}
  void add(const LoadMatrix& loads);
  std::vector<double> load() const { return {sum_.begin(), sum_.end()}; }

 private:
  std::size_t window_;
  std::deque<std::vector<std::int64_t>> passes_;
  std::vector<std::int64_t> sum_;
};

}  // namespace moesim
