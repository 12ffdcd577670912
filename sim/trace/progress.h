// SPDX-License-Identifier: Apache-2.0
// How long work reports its progress, and how it is ended early.
#pragma once

#include <functional>

namespace moesim {

/// Called now and then with the share of the work done, 0 to 1. An exception from it ends the work.
using TraceProgress = std::function<void(double done)>;

}  // namespace moesim
