// SPDX-License-Identifier: Apache-2.0
// The closed-form time of an exchange that has the network to itself.
#pragma once

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"
#include "sim/topology/topology.h"

namespace moesim {

struct ExchangeTime {
  Seconds overhead;  // of every exchange
  Seconds latency;   // the longest route in use; 0 when nothing leaves its GPU
  Seconds transfer;  // largest bytes / bandwidth of a link
  Seconds total() const { return overhead + latency + transfer; }
};

ExchangeTime exchange_time(const Topology& topology, const ByteMatrix& traffic);

}  // namespace moesim
