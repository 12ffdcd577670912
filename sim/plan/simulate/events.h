// SPDX-License-Identifier: Apache-2.0
// Simulated time: what happens when.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Calls functions in the order of their times.
class Events {
 public:
  virtual ~Events() = default;
  virtual Seconds now() const = 0;
  /// Calls the function at `time`, now if that has passed, but after what runs now has returned.
  virtual void call(Seconds time, std::function<void()> function) = 0;
  /// Until nothing is left to call.
  virtual void run() = 0;
};

/// From time zero, and in the order of the calls for one time, whatever machine it runs on.
class EventQueue : public Events {
 public:
  Seconds now() const override { return now_; }
  void call(Seconds time, std::function<void()> function) override;
  void run() override;

 private:
  static constexpr int place_bits = 28;  // which leaves 69 billion calls
  // Small, as the heap moves each many times: four are a cache line.
  struct Event {
    Seconds time;
    std::uint64_t call;  // the number of the call, and below it the place in functions_
    std::size_t function() const { return call & ((std::uint64_t{1} << place_bits) - 1); }
  };
  // Without branches, because nobody foretells which event of several is the earliest.
  static bool is_earlier(const Event& a, const Event& b) {
    return (a.time < b.time) | ((a.time == b.time) & (a.call < b.call));
  }
  std::size_t earliest_from(std::size_t first) const;
  Event pop();

  Seconds now_;
  std::uint64_t calls_ = 0;
  // Event i is earlier than 4 i + 1 to 4 i + 4: half the levels of a binary heap.
  std::vector<Event> heap_;
  std::vector<std::function<void()>> functions_;
  std::vector<std::size_t> free_;  // of functions_
};

}  // namespace moesim
