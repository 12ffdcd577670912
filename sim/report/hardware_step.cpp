// SPDX-License-Identifier: Apache-2.0
// Apart from what reads results: machines without YAML write them.
#include <algorithm>
#include <numeric>

#include "sim/base/files.h"
#include "sim/plan/text.h"
#include "sim/report/hardware_result.h"

namespace moesim {

std::size_t median_index(const std::vector<Seconds>& repeats) {
  std::vector<std::size_t> order(repeats.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return repeats[a] < repeats[b]; });
  return order[(order.size() - 1) / 2];
}

std::string hash_of_plan(const Plan& plan) {
  Plan bare = plan;
  for (Op& op : bare.ops) {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) exchange->rows.clear();
  }
  return hash_of(to_text(bare));
}

}  // namespace moesim
