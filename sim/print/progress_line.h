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

/// - On a terminal: one line, for work that takes over two seconds, which goes when this does.
/// - To a pipe or a file: a line that stays, every 30 seconds.
/// - With --quiet: nothing.
class ProgressLine {
 public:
  static constexpr double usual_pause = 30;  // seconds

  /// `pause`: between two lines of a pipe, in seconds.
  explicit ProgressLine(double pause = usual_pause) : pause_(pause) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `done` of all work, from 0 to 1, in `count` parts such as steps.
  void show(const std::string& what, double done, double count = 0, const std::string& part = "");
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  double pause_;
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
