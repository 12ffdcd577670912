// SPDX-License-Identifier: Apache-2.0
#include "sim/print/progress_line.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "sim/print/terminal.h"

namespace moesim {
namespace {

constexpr double patience = 2;       // seconds
constexpr double least_pause = 0.1;  // between two lines

double seconds_between(std::chrono::steady_clock::time_point a,
                       std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", whole / 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string pace_text(double seconds, double done, double count, const std::string& part) {
  std::string text;
  if (count > 0 && seconds > 0) text = fmt::format("{:.2g} {}/s", count / seconds, part);
  if (done <= 0 || done > 1) return text;
  return text + fmt::format("{}{} left", text.empty() ? "" : ", ",
                            duration_text(seconds * (1 - done) / done));
}

namespace {

/// Lines never wrap, or the next would not begin where the line before ends.
std::string cut_to_terminal(std::string line) {
  const auto width = static_cast<std::size_t>(terminal_width(stderr));
  if (line.size() >= width) line.resize(width - 1);
  return line;
}

bool somebody_watches() { return !is_quiet() && is_terminal(stderr); }

}  // namespace

void ProgressLine::show(const std::string& what, double done, double count,
                        const std::string& part) {
  const auto now = Clock::now();
  const double seconds = seconds_between(begin_, now), since = seconds_between(last_, now);
  const bool due_on_terminal = seconds >= patience && (!shown_ || since >= least_pause);
  if (is_quiet() || (!due_on_terminal && since < pause_)) return;
  const bool terminal = is_terminal(stderr);
  if (terminal ? !due_on_terminal : since < pause_) return;
  last_ = now;
  shown_ = terminal;
  const std::string line =
      fmt::format("{} {:.0f} %, {}", what, 100 * done, pace_text(seconds, done, count, part));
  if (terminal) {
    fmt::print(stderr, "\r\x1b[K{}", cut_to_terminal(line));
  } else {
    fmt::print(stderr, "# {}\n", line);
  }
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

void DoneLines::add(const std::string& line) {
  kept_.push_back(line);
  if (seconds_between(begin_, std::chrono::steady_clock::now()) < patience) return;
  for (const std::string& each : kept_) {
    if (somebody_watches()) fmt::print(stderr, "{}\n", cut_to_terminal(each));
  }
  kept_.clear();
}

}  // namespace moesim
