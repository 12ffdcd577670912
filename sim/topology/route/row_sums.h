// SPDX-License-Identifier: Apache-2.0
// The rows of a matrix, summed at the speed of memory: thousands of GPUs have hundreds of millions
// of entries.
#pragma once

#include <cstdint>
#include <span>

#include "sim/base/byte_matrix.h"
#include "sim/base/place_of.h"

namespace moesim {

using RowEntries = std::span<const ByteMatrix::Entry>;

/// Whether destinations follow each other without a gap.
inline bool is_gapless(RowEntries entries) {
  return entries.empty() ||
         entries.back().to.value - entries.front().to.value == std::ssize(entries) - 1;
}

/// Adds the units of every entry to inbound[to]; returns their sum.
std::int64_t add_inbound(RowEntries entries, std::int64_t* inbound);

/// Where the entries from `member` on begin.
inline RowEntries::iterator first_from(RowEntries row, int member) {
  return row.begin() +
         static_cast<std::ptrdiff_t>(place_of(row, GpuId(member), &ByteMatrix::Entry::to));
}

}  // namespace moesim
