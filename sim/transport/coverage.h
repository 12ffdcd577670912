// SPDX-License-Identifier: Apache-2.0
// What a transport knows of a cluster's links, for code that reads its times.
#pragma once

#include <string>
#include <vector>

#include "sim/transport/transport.h"

namespace moesim {

/// "nvlink, nic calibrated", "nvlink calibrated, nic assumed as on infiniband (roce not measured)",
/// ...: a line, empty if the transport is ideal.
std::string coverage_of(const Transport& transport, const Topology& topology);

/// The classes of links between GPUs that it was not measured on: "nvlink", "nic (efa)". NICs count
/// only if there are several hosts, and rates of other bandwidths on the same network do. Without a
/// transport, or by an ideal one, all of them are by data sheet.
std::vector<std::string> unmeasured_links(const Transport* transport, const Topology& topology);

/// The same classes, by index, but for those whose rates a file assumes: they go by data sheets, or
/// by the rates of another network.
std::vector<std::size_t> classes_by_data_sheet(const Transport* transport,
                                               const Topology& topology);

}  // namespace moesim
