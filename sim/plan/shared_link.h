// SPDX-License-Identifier: Apache-2.0
// A link that serves the exchanges that load it at equal shares of its time.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "sim/base/types.h"

namespace moesim {

/// Processor sharing, worked out exactly. Between two arrivals nothing about the link is undecided,
/// so that it is looked at only when an exchange arrives: its state stands for all ends until then.
/// With one exchange it fits a cache line, as an exchange looks at hundreds of links in no order.
template <class Exchange>
class alignas(64) SharedLink {
 public:
  /// Serves until `time`; calls ended(exchange, when) for each that it has served enough.
  template <class Ended>
  void advance(Seconds time, Ended ended) {
    while (!jobs_.empty() && end_of_next() <= time) {
      now_ = end_of_next();
      share_ = jobs_.back().until;
      ended(jobs_.back().exchange, now_);
      jobs_.pop_back();
    }
    if (jobs_.empty()) {
      share_ = Seconds(0);  // so that nothing is rounded by what is long over
    } else {
      share_ += (time - now_) * (1 / static_cast<double>(jobs_.size()));
    }
    now_ = time;
  }

  /// From now on the link serves an exchange that asks so much of its time.
  void add(Exchange exchange, Seconds work) {
    const Job job{share_ + work, exchange};
    const auto after =
        std::ranges::lower_bound(jobs_, job.until, std::ranges::greater(), &Job::until);
    jobs_.insert(after, job);
  }

  /// Calls ends(exchange, when) for each that it serves, unless others arrive.
  template <class Ends>
  void foretell(Ends ends) const {
    Seconds now = now_, share = share_;
    for (std::size_t left = jobs_.size(); left > 0; --left) {
      const Job& job = jobs_[left - 1];
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
    return now_ + (jobs_.back().until - share_) * static_cast<double>(jobs_.size());
  }

  Seconds now_;
  Seconds share_;                                // that each has had since the link was last idle
  boost::container::small_vector<Job, 1> jobs_;  // the next to end last; most often only one
};

}  // namespace moesim
