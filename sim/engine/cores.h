// SPDX-License-Identifier: Apache-2.0
// Cores that ranks share.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "sim/plan/simulate/events.h"

namespace moesim {

/// Jobs that come while all cores are busy wait, first come, first served; those that move messages
/// go before those that compute. A job keeps its core to its end.
class Cores {
 public:
  enum class Job { message, computing };

  Cores(Events& events, int cores) : events_(events), idle_(cores) {}

  /// `done` is called once the job has had a core for `work`, never from here.
  void run(Job job, Seconds work, std::function<void()> done) {
    waiting_[static_cast<std::size_t>(job)].emplace_back(work, std::move(done));
    start();
  }

 private:
  void start() {
    for (auto& waiting : waiting_) {
      while (idle_ > 0 && !waiting.empty()) {
        auto [work, done] = std::move(waiting.front());
        waiting.pop_front();
        occupy(work, std::move(done));
      }
    }
  }

  void occupy(Seconds work, std::function<void()> done) {
    --idle_;
    events_.call(events_.now() + work, [this, done = std::move(done)] {
      ++idle_;
      start();
      done();
    });
  }

  Events& events_;
  int idle_;
  std::array<std::deque<std::pair<Seconds, std::function<void()>>>, 2> waiting_;
};

}  // namespace moesim
