// SPDX-License-Identifier: Apache-2.0
// What jobs in other processes say before they end.
#pragma once

#include <functional>
#include <string>

namespace moesim {

/// What is heard of jobs before they end; none of it if they run in this process.
struct JobsHeard {
  /// How much of all jobs is done, from 0 to 1.
  std::function<void(double done)> progress = nullptr;
  /// Sentences that jobs say, such as how long they are likely to take; else on standard error.
  std::function<void(const std::string& job, const std::string& text)> note = nullptr;
};

}  // namespace moesim
