// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/planner/parallel/grid.h"
#include "sim/topology/topology.h"

namespace moesim {

/// A header line if EP groups span several hosts, although a host has room for one; else nothing.
/// NVLink domains are hosts of a topology.
std::string domains_text(const Topology& topology, const GpuGroups& groups);
/// The same of groups of `ep` consecutive GPUs.
std::string domains_text(const Topology& topology, int ep);

}  // namespace moesim
