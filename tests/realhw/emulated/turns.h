// SPDX-License-Identifier: Apache-2.0
// Threads that are ranks, and the streams of their GPUs, one at a time in an order that a seed
// decides. While there are turns, time is what their work takes: a run is the same every time, and
// waiting costs nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

struct CUstream_st;

namespace moesim::emulated {

class Turns {
 public:
  using Time = std::chrono::nanoseconds;

  /// The only one while it lives. Hosts are ranks 0 to `hosts`, with a GPU each.
  Turns(int hosts, std::uint64_t seed);
  ~Turns();
  Turns(const Turns&) = delete;

  /// Null while threads run as the machine has them run.
  static Turns* current();
  /// The rank of this thread; -1 for one that takes no turns.
  static int host();

  /// Begins when all hosts have joined.
  void join(int host);
  /// Others go on without this thread. A rank that died runs no destructors.
  void leave();

  /// Others may go first.
  void pass();
  /// Goes on when `until` is true. False: nobody can go on, or `limit` has passed.
  bool wait(std::function<bool()> until, const std::string& for_what,
            Time limit = std::chrono::hours(1));
  void sleep(Time time);
  int hosts() const { return static_cast<int>(hosts_.size()); }
  Time now() const { return now_; }

  /// What each host waited for when nobody could go on; empty if that never was.
  const std::string& deadlock() const { return deadlock_; }
  /// Decisions between several that could go on.
  std::uint64_t decisions() const { return decisions_; }
  std::mt19937_64& chance() { return chance_; }
  bool one_in(std::uint64_t n) { return chance_() % n == 0; }

 private:
  enum class Order { any, hosts_first, streams_first, priorities, late_stream, late_host };
  struct Host {
    bool joined = false, left = false;
    std::function<bool()> until;
    Time wake{};  // at the latest
    std::string for_what;
    std::uint64_t priority = 0;
    std::condition_variable turn;
  };
  struct Choice {
    int host = -1;
    CUstream_st* stream = nullptr;
    std::uint64_t priority = 0;
  };

  void hand_over(std::unique_lock<std::mutex>& lock, bool stays);
  Choice choose();
  std::vector<Choice> candidates();
  bool can_run(const Host& host) const;
  bool jump();
  void change_priorities();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Host>> hosts_;
  int turn_ = -1;
  Time now_;
  std::mt19937_64 chance_;
  Order order_;
  std::uint64_t late_ = 0, decisions_ = 0;
  bool stuck_ = false;
  std::string deadlock_;
};

}  // namespace moesim::emulated
