// SPDX-License-Identifier: Apache-2.0
// Ranks on emulated GPUs in one process: threads that take turns, in an order that a seed decides.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "realhw/job/job.h"
#include "tests/realhw/emulated/turns.h"

namespace moesim {

/// How a run of all ranks ended.
struct RunEnd {
  std::vector<std::string> thrown;  // by rank; "" for nothing
  std::vector<bool> died;
  std::string deadlock;
  std::uint64_t decisions = 0;
  double first_end_s = 0, last_end_s = 0;  // of a rank that threw or died; of the last to end
  std::vector<std::string> faults;         // of memory and kernels
  std::size_t allocations = 0, streams = 0, events = 0;  // not given back
  int communicators = 0, hung = 0, misused = 0;

  bool all_ended_well() const;
  /// What was thrown, and what should not be; empty if nothing.
  std::string text() const;
  /// Only the latter.
  std::string text_of_state() const;
};

/// Runs `body` as every rank. What was left by earlier runs is forgotten.
RunEnd run_ranks(int ranks, std::uint64_t seed, const std::function<void(Job&)>& body);

}  // namespace moesim
