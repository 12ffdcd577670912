// SPDX-License-Identifier: Apache-2.0
// The exchanges that a calibration measures.
#pragma once

#include <vector>

#include "realhw/calibrate/micro_plan.h"
#include "sim/topology/topology.h"

namespace moesim {

struct ExchangeSizes {
  Seconds longest{0.1};        // of an exchange, by the topology's bandwidths
  Bytes most{256 << 20};       // that a GPU sends in an exchange
  double step = 1.4142135623;  // ratio of neighbouring sizes of a table
};

enum class ExchangePurpose {
  overhead,  // one byte to each of 1, 2, 4 ... peers ("tiny"), and exchanges of nothing ("empty")
  table,     // all-to-alls by size: what link tables are fitted to
  check,     // other exchanges by size: sends to one peer, everything at once, uneven traffic
  together   // two exchanges at a time on two streams
};

struct ExchangePlan {
  ExchangePurpose purpose;
  MicroPlan micro;
};

/// For every pair of neighbouring levels (PeerSets) and for the whole cluster. A settling exchange
/// comes before each (before each two that run at once), so that all ranks start together.
std::vector<ExchangePlan> exchange_plans(const Topology& topology, const ExchangeSizes& sizes);

}  // namespace moesim
