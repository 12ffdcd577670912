// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "sim/print/terminal.h"

namespace moesim {
namespace {

constexpr double log_pause = 30;  // seconds between two lines of a log

}  // namespace

CountedProgress::CountedProgress(std::string parts, std::string where)
    : parts_(std::move(parts)), where_(std::move(where)) {}

void CountedProgress::show(double done, std::int64_t count, std::int64_t all) {
  const std::string what = fmt::format("{} of {} {}{},", count, all, parts_, where_);
  line_.show(what, done, static_cast<double>(count), parts_);
  if (is_quiet() || is_terminal(stderr)) return;
  const auto since = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  if (since(last_) < log_pause) return;
  last_ = Clock::now();
  const std::string pace = pace_text(since(begin_), done, static_cast<double>(count), parts_);
  fmt::print(stderr, "# {} {:.0f} %{}{}\n", what, 100 * done, pace.empty() ? "" : ", ", pace);
  std::fflush(stderr);
}

}  // namespace moesim
