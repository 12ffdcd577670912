// SPDX-License-Identifier: Apache-2.0
// The bandwidth of links that limit nothing.
#pragma once

#include "sim/base/types.h"

namespace moesim {

/// More than anything has, whatever is changed; finite, so that sums and max-flows are.
inline constexpr BytesPerSecond unlimited_bandwidth{1e15};

}  // namespace moesim
