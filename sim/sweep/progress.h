// SPDX-License-Identifier: Apache-2.0
// How far long work on many scenarios is, on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "sim/print/progress_line.h"

namespace moesim {

/// A line on a terminal, now and then one in a log.
class CountedProgress {
 public:
  /// `parts`: "scenarios"; `where`: "" or such as " at port".
  explicit CountedProgress(std::string parts, std::string where = "");
  /// `done` of all work, from 0 to 1; `count` of `all` parts.
  void show(double done, std::int64_t count, std::int64_t all);

 private:
  using Clock = std::chrono::steady_clock;
  std::string parts_, where_;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  ProgressLine line_;
};

}  // namespace moesim
