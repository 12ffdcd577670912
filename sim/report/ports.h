// SPDX-License-Identifier: Apache-2.0
// The ports of hosts and GPUs: what all that enters or leaves them must pass.
#pragma once

#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

/// Something of each port of some hosts or GPUs.
template <class T>
struct Ports {
  std::vector<T> in, out;
  Ports() = default;
  explicit Ports(int count)
      : in(static_cast<std::size_t>(count)), out(static_cast<std::size_t>(count)) {}
  bool operator==(const Ports&) const = default;
};

/// The links of a port.
using PortLinks = std::vector<LinkId>;

/// A host's links lead to or from the fabric and other hosts, a GPU's are all that it has.
struct LinksOfPorts {
  Ports<PortLinks> hosts, gpus;
};
LinksOfPorts links_of_ports(const Topology& topology);

/// The most that the links yield together to `bytes` (> 0), however these are split into exchanges.
BytesPerSecond most_of_port(const Topology& topology, const PortLinks& links, Bytes bytes);

}  // namespace moesim
