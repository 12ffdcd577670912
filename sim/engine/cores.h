// SPDX-License-Identifier: Apache-2.0
// Cores that the threads of ranks share.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "sim/plan/simulate/events.h"

namespace moesim {

/// Threads take turns, first come, first served. One that has its turn keeps its core until it
/// gives it back.
class Cores {
 public:
  explicit Cores(int cores) : idle_(cores) {}

  /// `turn` is called when a core is there, also from here.
  void take(std::function<void()> turn) {
    waiting_.push_back(std::move(turn));
    serve();
  }

  void give_back() {
    ++idle_;
    serve();
  }

 private:
  void serve() {
    while (idle_ > 0 && !waiting_.empty()) {
      const auto turn = std::move(waiting_.front());
      waiting_.pop_front();
      --idle_;
      turn();
    }
  }

  int idle_;
  std::deque<std::function<void()>> waiting_;
};

/// A thread does one thing after the other. It waits for its turn once there is something to do,
/// and in its turn does all there is, also what comes meanwhile.
class SharedThread {
 public:
  /// Both outlive it.
  SharedThread(Events& events, Cores& cores) : events_(events), cores_(cores) {}

  /// `done` is called once the thread has had a core for `work`, never from here.
  void run(Seconds work, std::function<void()> done) {
    todo_.emplace_back(work, std::move(done));
    if (awake_) return;
    awake_ = true;
    cores_.take([this] { go_on(); });
  }

 private:
  void go_on() {
    if (todo_.empty()) {
      awake_ = false;
      return cores_.give_back();
    }
    auto [work, done] = std::move(todo_.front());
    todo_.pop_front();
    events_.call(events_.now() + work, [this, done = std::move(done)] {
      done();
      go_on();
    });
  }

  Events& events_;
  Cores& cores_;
  bool awake_ = false;  // has a core, or waits for one
  std::deque<std::pair<Seconds, std::function<void()>>> todo_;
};

}  // namespace moesim
