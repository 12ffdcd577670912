// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/events.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moesim {
namespace {

constexpr std::size_t ways = 4;

}  // namespace

void EventQueue::call(Seconds time, std::function<void()> function) {
  std::size_t place = functions_.size();
  if (free_.empty()) {
    functions_.push_back(std::move(function));
  } else {
    place = free_.back();
    free_.pop_back();
    functions_[place] = std::move(function);
  }
  if (place >> place_bits != 0) throw std::length_error("too many events at once");
  const Event event{std::max(time, now_), (calls_++ << place_bits) | place};
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  for (; hole > 0 && is_earlier(event, heap_[(hole - 1) / ways]); hole = (hole - 1) / ways) {
    heap_[hole] = heap_[(hole - 1) / ways];
  }
  heap_[hole] = event;
}

/// The earliest child of an event; `first` is its first, and exists.
std::size_t EventQueue::earliest_from(std::size_t first) const {
  const std::size_t count = heap_.size();
  if (first + ways > count) {
    std::size_t next = first;
    for (std::size_t i = first + 1; i < count; ++i) {
      if (is_earlier(heap_[i], heap_[next])) next = i;
    }
    return next;
  }
  const Event* events = &heap_[first];
  const std::size_t low = is_earlier(events[1], events[0]) ? 1 : 0;
  const std::size_t high = is_earlier(events[3], events[2]) ? 3 : 2;
  return first + (is_earlier(events[high], events[low]) ? high : low);
}

EventQueue::Event EventQueue::pop() {
  const Event earliest = heap_.front(), last = heap_.back();
  heap_.pop_back();
  const std::size_t count = heap_.size();
  if (count == 0) return earliest;
  std::size_t hole = 0;
  for (std::size_t first = 1; first < count; first = hole * ways + 1) {
    const std::size_t next = earliest_from(first);
    if (!is_earlier(heap_[next], last)) break;
    heap_[hole] = heap_[next];
    hole = next;
  }
  heap_[hole] = last;
  return earliest;
}

void EventQueue::run() {
  while (!heap_.empty()) {
    const Event event = pop();
    if (!heap_.empty()) __builtin_prefetch(&functions_[heap_.front().function()]);
    const auto function = std::exchange(functions_[event.function()], nullptr);
    free_.push_back(event.function());
    now_ = event.time;
    function();
  }
}

}  // namespace moesim
