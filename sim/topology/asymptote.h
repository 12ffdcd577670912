// SPDX-License-Identifier: Apache-2.0
// The time of a link for the bytes of an exchange.
#pragma once

#include "sim/topology/bandwidth_table.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Sets the time and the part of a use whose bytes are known. `bandwidth`: what the link yields to
/// the pairs of GPUs of the exchange.
inline void set_time(LinkUse& use, const Link& link, BytesPerSecond bandwidth) {
  use.time = use.bytes / bandwidth;
  use.part = link.part_of(use.bytes);
  if (link.table) use.time.value /= use.part;
}

/// The rate of ever larger exchanges, the last point's: the bandwidth of a link with such a table.
/// A point before it has a larger one if a fixed time hides most of what its bytes take.
inline BytesPerSecond asymptote_of(const BandwidthTable& table) {
  return table.points().back().rate;
}

}  // namespace moesim
