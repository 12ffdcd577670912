// SPDX-License-Identifier: Apache-2.0
// What a transport knows of a cluster's links, for code that reads its times.
#pragma once

#include <string>

#include "sim/transport/transport.h"

namespace moesim {

/// "nvlink, nic calibrated", "nvlink calibrated, nic by data sheet (efa not measured)", ...: a
/// line, empty if the transport is ideal.
std::string coverage_of(const Transport& transport, const Topology& topology);

}  // namespace moesim
