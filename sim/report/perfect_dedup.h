// SPDX-License-Identifier: Apache-2.0
// Perfect deduplication: what token exchanges must move at least, however they merge and relay.
#pragma once

#include <cstdint>

#include "sim/plan/plan.h"
#include "sim/report/ports.h"

namespace moesim {

/// Bytes that must pass the ports of hosts and GPUs.
struct PortBytes {
  Ports<std::int64_t> hosts, gpus;
  std::int64_t between_hosts = 0;  // that go from one host to another

  void add(const PortBytes& other);
  bool operator==(const PortBytes&) const = default;
};

/// The least that the token exchanges of a plan with explicit rows must move, all layers, passes
/// and stages together. In each a token enters every other host and every GPU that needs it once,
/// and leaves its own once if others need it; in a combine the directions swap. Rows are as large
/// as the smallest of the stage.
PortBytes least_bytes(const Plan& plan, const Topology& topology);

/// The longest time that a port needs for its bytes at the most that its links yield to any part of
/// them. Where exchanges share links no plan that moves these bytes is faster, whatever it
/// overlaps: a link of the port is busy that long.
Seconds time_at_best_rate(const PortBytes& bytes, const Topology& topology);

}  // namespace moesim
