// SPDX-License-Identifier: Apache-2.0
// NICs that are faster than the PCIe in front of them.
#pragma once

#include <string>

#include "sim/topology/topology.h"

namespace moesim {

/// The warning about such a NIC, or about several that share the PCIe link of a GPU.
std::string narrow_front(BytesPerSecond nic, BytesPerSecond front, int together = 1);
/// The same of a cluster's first one; empty if there is none.
std::string narrow_front_in(const Topology& topology);

}  // namespace moesim
