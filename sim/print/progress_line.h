// SPDX-License-Identifier: Apache-2.0
// A line on standard error that tells how far some work is.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace moesim {

/// "12 s", "3 min" or "2 h 5 min"; seconds are rounded up.
std::string duration_text(double seconds);

/// "1.5 steps/s, 12 s left"; the first `seconds` took `done` of all, in `count` parts.
std::string pace_text(double seconds, double done, double count, const std::string& part);

/// Shown only on terminals, not with --quiet, and only for work that takes over two seconds. The
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

/// Lines on standard error that tell of results as they come, where and when a ProgressLine shows.
class DoneLines {
 public:
  /// Those of the first two seconds come with the first after them.
  void add(const std::string& line);

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::string> kept_;
};

}  // namespace moesim
