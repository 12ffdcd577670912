// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/megatron_timers.h"

#include <algorithm>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/read_number.h"
#include "sim/profile/flat_json.h"
#include "sim/profile/profile_builder.h"

namespace moesim {
namespace {

constexpr std::size_t most_iterations = 1U << 20, most_timers = 1000;
constexpr ProfileTicks longest_log = 4'000'000'000'000'000'000;

/// The number behind a text in a line; -1 if there is none.
double number_behind(std::string_view line, std::string_view text) {
  const std::size_t at = line.find(text);
  if (at == line.npos) return -1;
  std::string_view rest = line.substr(at + text.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  double value = -1;
  read_number(rest.data(), rest.data() + rest.size(), value);
  return value >= 0 && value < 1e9 ? value : -1;
}

/// "    forward-backward ......: (12.5, 13.1)": a timer's least and largest milliseconds.
bool take_timer(std::string_view line, Profile& profile) {
  const std::size_t begin = line.find_first_not_of(" \t"), dots = line.find(" ...");
  const std::size_t open = line.find(": (");
  if (dots == line.npos || open == line.npos || dots <= begin) return false;
  const double least = number_behind(line, ": ("), most = number_behind(line.substr(open), ", ");
  if (least < 0 || most < least) return false;
  const std::string name(line.substr(begin, dots - begin));
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  if (!plain || profile.timers.size() >= most_timers) return false;
  profile.timers[name].emplace_back(least * 1e-3, most * 1e-3);
  return true;
}

}  // namespace

void read_megatron_timers(const std::string& path, Profile& profile) {
  LineFile lines(path);
  ProfiledRank rank;
  rank.rank = profile.ranks.empty() ? 0 : profile.ranks.back().rank + 1;
  ProfileTicks now = 0;
  std::string line;
  while (lines.next(line)) {
    double ms = number_behind(line, "elapsed time per iteration (ms):");
    if (ms < 0) ms = number_behind(line, "elapsed_time_per_iteration_ms=");  // of ALCF's fork
    if (ms > 0 && ms < 1e7 && now < longest_log && rank.steps.size() < most_iterations) {
      const auto length = static_cast<ProfileTicks>(ms * 1e9);
      rank.steps.emplace_back(now, now + length);
      now += length;
    } else {
      take_timer(line, profile);
    }
    profile.bytes += std::ssize(line) + 1;
  }
  if (rank.steps.empty()) {
    throw error_in(path, "is of no profiler whose files are read",
                   "read are traces of PyTorch's profiler, nsys export --type sqlite, and logs of "
                   "Megatron-LM with 'elapsed time per iteration'");
  }
  profile.producer = "Megatron-LM's log";
  add_rank(std::move(rank), path, profile);
}

}  // namespace moesim
