// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/topology/bandwidth_table.h"

namespace moesim {

/// The rate of ever larger exchanges, the last point's: the bandwidth of a link with such a table.
/// A point before it has a larger one if a fixed time hides most of what its bytes take.
inline BytesPerSecond asymptote_of(const BandwidthTable& table) {
  return table.points().back().rate;
}

}  // namespace moesim
