// SPDX-License-Identifier: Apache-2.0
// Descriptions that are XML; only the sources of this folder see the library that parses it.
#pragma once

#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

/// NCCL's topology (NCCL_TOPO_DUMP_FILE, <system>) and graphs (NCCL_GRAPH_DUMP_FILE, <graphs>), and
/// hwloc's (lstopo --of xml, <topology>). Throws Error for other XML.
ClusterFacts xml_facts(const std::string& text, const std::string& name);

}  // namespace moesim
