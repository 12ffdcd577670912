// SPDX-License-Identifier: Apache-2.0
// Which GPUs must get which tokens, from what a plan delivers; and the ports of hosts and GPUs that
// all of it must pass.
#pragma once

#include <map>
#include <vector>

#include "sim/plan/plan.h"
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

/// A token that GPUs other than its own must get.
struct TokenNeeds {
  GpuId source;
  std::vector<GpuId> targets;  // ascending, each once, without the source; not empty
  bool operator==(const TokenNeeds&) const = default;
};

/// What the forward dispatch of a plan with explicit rows delivers, by layer. A token goes from
/// where its first row starts to where the last row of each choice ends. In the order of the
/// tokens; tokens that stay on their GPU are left out.
std::map<int, std::vector<TokenNeeds>> needs_by_layer(const Plan& plan);
/// Needs of a plan of one layer.
std::vector<TokenNeeds> needs_of(const Plan& plan);

/// Bytes of a token row of an exchange with explicit rows.
Bytes row_bytes(const Exchange& exchange);

}  // namespace moesim
