// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/step_order.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace moesim {

std::vector<std::vector<std::size_t>> steps_before(const std::vector<RankStep>& steps) {
  std::vector<std::vector<std::size_t>> before(steps.size());
  std::array<std::optional<std::size_t>, stream_count> last;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto on_stream = std::exchange(last.at(static_cast<std::size_t>(steps[i].stream)), i);
    if (on_stream) before[i].push_back(*on_stream);
    for (const OpId op : steps[i].waits) {
      const auto step = std::lower_bound(steps.begin(), steps.end(), op,
                                         [](const RankStep& s, OpId id) { return s.op < id; });
      before[i].push_back(static_cast<std::size_t>(step - steps.begin()));
    }
  }
  return before;
}

StepOrder::StepOrder(const std::vector<RankStep>& steps) : dependents_(steps.size()) {
  const auto before = steps_before(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    waits_.push_back(static_cast<int>(before[i].size()));
    for (const std::size_t earlier : before[i]) dependents_[earlier].push_back(i);
  }
  reset();
}

void StepOrder::reset() {
  waiting_ = waits_;
  ready_.clear();
  left_ = waits_.size();
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i] == 0) ready_.push_back(i);
  }
}

std::vector<std::size_t> StepOrder::take_ready() {
  std::sort(ready_.begin(), ready_.end());
  return std::exchange(ready_, {});
}

void StepOrder::end(std::size_t step) {
  waiting_[step] = -1;
  --left_;
  for (const std::size_t dependent : dependents_[step]) {
    if (--waiting_[dependent] == 0) ready_.push_back(dependent);
  }
}

std::vector<std::size_t> StepOrder::open() const {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i] >= 0) steps.push_back(i);
  }
  return steps;
}

}  // namespace moesim
