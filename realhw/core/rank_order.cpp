// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/rank_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/plan/check.h"

namespace moesim {

RankOrder::RankOrder(const Plan& plan, GpuId rank) : step_of_(plan.ops.size(), -1) {
  std::array<int, lane_count> last;
  last.fill(-1);
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    const auto gpus = gpus_of(op);
    if (std::binary_search(gpus.begin(), gpus.end(), rank)) {
      step_of_[id.index()] = static_cast<int>(steps_.size());
      steps_.push_back({id, 0, {}});
    }
  }
  const auto wait = [&](int step, int before) {
    if (before < 0) return;
    ++steps_[static_cast<std::size_t>(step)].waits;
    steps_[static_cast<std::size_t>(before)].dependents.push_back(step);
  };
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    const Op& op = plan[steps_[static_cast<std::size_t>(step)].op];
    wait(step, std::exchange(last.at(static_cast<std::size_t>(op.lane)), step));
    for (const OpId after : op.after) wait(step, step_of_[after.index()]);
  }
  reset();
}

void RankOrder::reset() {
  waiting_.clear();
  ready_.clear();
  left_ = steps_.size();
  for (const Step& step : steps_) {
    waiting_.push_back(step.waits);
    if (step.waits == 0) ready_.push_back(step.op);
  }
}

std::vector<OpId> RankOrder::take_ready() {
  std::sort(ready_.begin(), ready_.end());
  return std::exchange(ready_, {});
}

void RankOrder::end(OpId op) {
  const auto step = static_cast<std::size_t>(step_of_[op.index()]);
  waiting_[step] = -1;
  --left_;
  for (const int dependent : steps_[step].dependents) {
    if (--waiting_[static_cast<std::size_t>(dependent)] == 0) {
      ready_.push_back(steps_[static_cast<std::size_t>(dependent)].op);
    }
  }
}

std::vector<OpId> RankOrder::open() const {
  std::vector<OpId> ops;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (waiting_[step] >= 0) ops.push_back(steps_[step].op);
  }
  return ops;
}

}  // namespace moesim
