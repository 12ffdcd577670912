// SPDX-License-Identifier: Apache-2.0
// The messages of an exchange as one rank sees them.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// What goes from one GPU to another in one exchange: the rows between the two, and other bytes.
struct Parcel {
  GpuId from, to;
  Bytes bytes;
  std::vector<std::uint32_t> rows;  // indices into the exchange's rows, ascending
};

/// The parcels of a rank in one exchange, ascending by peer. Rows and parcels to itself included.
struct RankParcels {
  std::vector<Parcel> sent, received;
  Bytes row_bytes;  // 0: the exchange lists no rows
};

/// Bytes of every row; padded exchanges have one a unit, in others the rows make up the bytes. 0
/// without rows.
Bytes row_bytes_of(const Exchange& exchange);

/// Parcels of an exchange; rounds are not distinguished, all bytes go at once. Throws
/// std::runtime_error when rows do not fit into the bytes of their parcel.
RankParcels parcels_of(const Op& op, GpuId rank);

}  // namespace moesim
