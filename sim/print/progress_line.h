// SPDX-License-Identifier: Apache-2.0
// A line on standard error that tells how far some work is.
#pragma once

#include <chrono>
#include <string>

namespace moesim {

/// "12 s", "3 min" or "2 h 5 min"; seconds are rounded up.
std::string duration_text(double seconds);

/// "1.5 steps/s, 12 s left"; the first `seconds` took `done` of all, in `count` parts.
std::string pace_text(double seconds, double done, double count, const std::string& part);

/// Shown on terminals alone, not with --quiet, and only for work that takes over two seconds. The
/// line goes when this does.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `done` of all work, from 0 to 1, in `count` parts such as steps; at most ten times a second.
  void show(const std::string& what, double done, double count = 0, const std::string& part = "");
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  bool shown_ = false;
};

}  // namespace moesim
