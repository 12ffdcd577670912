// SPDX-License-Identifier: Apache-2.0
// How many processes a command uses.
#pragma once

#include <algorithm>
#include <thread>

namespace moesim {

/// `asked`, or one process per core that this one may use if nothing (0) was asked for.
inline int worker_count(int asked = 0) {
  if (asked > 0) return asked;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace moesim
