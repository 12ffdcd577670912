// SPDX-License-Identifier: Apache-2.0
// Where values are on a device.
#pragma once

#include <cstdint>

#include "sim/base/types.h"

namespace moesim {

using BufferId = Id<struct BufferTag>;

/// A row or a matrix in a buffer: where its first element is, in bytes.
struct Place {
  BufferId buffer;
  std::int64_t offset = 0;
  bool operator==(const Place&) const = default;
};

inline constexpr std::int64_t float_bytes = 4;

/// Where a float32 is in a buffer.
inline Place elements_at(BufferId buffer, std::int64_t first) {
  return {buffer, first * float_bytes};
}

}  // namespace moesim
