// SPDX-License-Identifier: Apache-2.0
// The yardstick for fidelity `flow`: what one would write with only SimGrid.
#pragma once

#include "sim/topology/topology.h"

namespace moesim::bench {

/// Simulates one exchange with a mailbox flow per pair of GPUs, on the first path of each, and
/// returns its makespan. Call it in a child process: SimGrid runs once per process.
Seconds plain_simgrid_exchange(const Topology& topology, const ByteMatrix& traffic);

}  // namespace moesim::bench
