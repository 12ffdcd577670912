// SPDX-License-Identifier: Apache-2.0
// The closed-form times of an exchange that has the network to itself, and of several that start
// together.
#pragma once

#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"
#include "sim/topology/topology.h"

namespace moesim {

struct ExchangeTime {
  Seconds overhead;  // of the exchange, whatever it moves
  Seconds latency;   // until bytes flow on the link that ends last; 0 when nothing leaves its GPU
  Seconds transfer;  // largest time of a link for its bytes
  Seconds total() const { return overhead + latency + transfer; }
};

/// A link starts when the first of its routes delivers (its least route latency) and then drains at
/// full bandwidth; the exchange lasts until the last link has drained and the longest route has
/// delivered. So latency = max(longest route, max over links of (first + its time)) -
/// transfer, at least 0: with routes of one latency just that latency.
ExchangeTime exchange_time(const LinkLoads& loads);

/// The same, computing the loads.
ExchangeTime exchange_time(const Topology& topology, const ByteMatrix& traffic);

/// What an exchange asks of the network: from `begin` on, some time of each of its links.
struct ExchangeDemand {
  struct Use {
    std::size_t link;
    Seconds work;
  };
  Seconds begin;  // overhead and latency
  std::vector<Use> uses;

  explicit ExchangeDemand(const LinkLoads& loads);
};

/// How long exchanges take that start together and share the links evenly: every link serves those
/// with bytes for it by processor sharing, each from its own `begin` on, and an exchange ends with
/// its last link. One alone takes exchange_time().total().
std::vector<Seconds> shared_times(const std::vector<ExchangeDemand>& demands);

}  // namespace moesim
