// SPDX-License-Identifier: Apache-2.0
// Bad input is reported once, however many ranks read it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "realhw/job/job.h"
#include "sim/base/error.h"

namespace moesim {

inline constexpr int run_failed = 1;
inline constexpr int bad_input = 2;

/// What every rank must do alike, such as reading input. If any of them throws Error, the lowest
/// one prints it and nobody continues: returns false.
template <class Action>
bool agreed(Job& job, Action action) {
  std::string complaint;
  try {
    action();
  } catch (const Error& e) {
    complaint = e.what();
  }
  const auto complaints = all_gather(job, complaint);
  int lowest = 0;
  while (lowest < job.ranks() && complaints[static_cast<std::size_t>(lowest)].empty()) ++lowest;
  if (lowest == job.rank()) fmt::print(stderr, "{}", complaint);
  return lowest == job.ranks();
}

}  // namespace moesim
