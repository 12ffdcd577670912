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
  heap_.push_back({std::max(time, now_), calls_++, std::move(function)});
  std::ranges::push_heap(heap_, later);
}

void EventQueue::run() {
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    advance(event.time);
    now_ = event.time;
    event.function();
  }
}

}  // namespace moesim
