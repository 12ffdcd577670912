// SPDX-License-Identifier: Apache-2.0
// The closed-form time of an exchange that has the network to itself.
#pragma once

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"
#include "sim/topology/topology.h"

namespace moesim {

struct ExchangeTime {
  Seconds overhead;  // of every exchange
  Seconds latency;   // until bytes flow on the link that ends last; 0 when nothing leaves its GPU
  Seconds transfer;  // largest bytes / bandwidth of a link
  Seconds total() const { return overhead + latency + transfer; }
};

/// A link starts when the first of its routes delivers (its least route latency) and then drains at
/// full bandwidth; the exchange lasts until the last link has drained and the longest route has
/// delivered. So latency = max(longest route, max over links of (first + bytes / bandwidth)) -
/// transfer, at least 0: with routes of one latency just that latency.
ExchangeTime exchange_time(const Topology& topology, const LinkLoads& loads);

/// The same, computing the loads.
ExchangeTime exchange_time(const Topology& topology, const ByteMatrix& traffic);

}  // namespace moesim
