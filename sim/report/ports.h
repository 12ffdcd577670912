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

/// Sums of the bandwidths of their links: a host's lead to or from the fabric and other hosts, a
/// GPU's are all that it has.
struct PortRates {
  Ports<BytesPerSecond> hosts, gpus;
};
PortRates port_rates(const Topology& topology);

}  // namespace moesim
