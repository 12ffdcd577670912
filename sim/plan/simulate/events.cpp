// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/events.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace moesim {

bool EventQueue::later(const Event& a, const Event& b) {
  return std::tie(a.time, a.number) > std::tie(b.time, b.number);
}

void EventQueue::call(Seconds time, std::function<void()> function) {
  std::size_t place = functions_.size();
  if (free_.empty()) {
    functions_.push_back(std::move(function));
  } else {
    place = free_.back();
    free_.pop_back();
    functions_[place] = std::move(function);
  }
  heap_.push_back({std::max(time, now_), calls_++, place});
  std::ranges::push_heap(heap_, later);
}

void EventQueue::run() {
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    const Event event = heap_.back();
    heap_.pop_back();
    const auto function = std::exchange(functions_[event.function], nullptr);
    free_.push_back(event.function);
    now_ = event.time;
    function();
  }
}

}  // namespace moesim
