// SPDX-License-Identifier: Apache-2.0
// A link that serves the exchanges that load it at equal shares of its time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Processor sharing, worked out exactly. Between two arrivals nothing about the link is undecided,
/// so that it is looked at only when an exchange arrives: its state stands for all ends until then.
/// With two exchanges it fits a cache line, as an exchange looks at hundreds of links in no order.
template <class Exchange>
class alignas(64) SharedLink {
 public:
  /// Serves until `time`; calls ended(exchange, when) for each that it has served enough.
  template <class Ended>
  void advance(Seconds time, Ended ended) {
    while (jobs_ > 0 && end_of_next() <= time) {
      now_ = end_of_next();
      share_ = next_[0].until;
      ended(next_[0].exchange, now_);
      pop();
    }
    if (jobs_ == 0) {
      share_ = Seconds(0);  // so that nothing is rounded by what is long over
    } else {
      share_ += (time - now_) * (1 / static_cast<double>(jobs_));
    }
    now_ = time;
  }

  /// From now on the link serves an exchange that asks so much of its time.
  void add(Exchange exchange, Seconds work) {
    const Job job{share_ + work, exchange};
    const std::size_t before = jobs_++;
    if (before > 0 && next_[0].until <= job.until) {
      if (before > 1 && next_[1].until <= job.until) return insert_later(job);
      if (before > 1) push_later(next_[1]);
      next_[1] = job;
      return;
    }
    if (before > 1) push_later(next_[1]);
    next_[1] = std::exchange(next_[0], job);
  }

  /// Calls ends(exchange, when) for each that it serves, unless others arrive.
  template <class Ends>
  void foretell(Ends ends) const {
    Seconds now = now_, share = share_;
    for (std::size_t left = jobs_; left > 0; --left) {
      const Job& job = jobs_ - left < 2 ? next_[jobs_ - left] : (*later_)[left - 1];
      now += (job.until - share) * static_cast<double>(left);
      share = job.until;
      ends(job.exchange, now);
    }
  }

 private:
  struct Job {
    Seconds until;  // share_ when it has had enough
    Exchange exchange;
  };
  Seconds end_of_next() const {
    return now_ + (next_[0].until - share_) * static_cast<double>(jobs_);
  }
  void pop() {
    next_[0] = next_[1];
    if (--jobs_ < 2) return;
    next_[1] = later_->back();
    later_->pop_back();
  }
  void push_later(const Job& job) {
    if (!later_) later_ = std::make_unique<std::vector<Job>>();
    later_->push_back(job);
  }
  void insert_later(const Job& job) {
    push_later(job);
    const auto after = std::ranges::lower_bound(later_->begin(), later_->end() - 1, job.until,
                                                std::ranges::greater(), &Job::until);
    std::rotate(after, later_->end() - 1, later_->end());
  }

  Seconds now_;
  Seconds share_;                            // that each has had since the link was last idle
  std::array<Job, 2> next_{};                // to end, in their order; most often one is all
  std::unique_ptr<std::vector<Job>> later_;  // the others, the next to end last
  std::size_t jobs_ = 0;
};

}  // namespace moesim
