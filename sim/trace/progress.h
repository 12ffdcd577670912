// SPDX-License-Identifier: Apache-2.0
// How long work tells how far it is, and is stopped.
#pragma once

#include <functional>

namespace moesim {

/// Called now and then with the share of the work done, 0 to 1; what it throws ends the work.
using TraceProgress = std::function<void(double done)>;

}  // namespace moesim
