// SPDX-License-Identifier: Apache-2.0
// What an exchange costs: its use of the links, and its closed-form times by itself and among
// others.
#pragma once

#include <memory>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"
#include "sim/topology/topology.h"
#include "sim/transport/transport.h"

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

/// An exchange on a topology: from start() on after its last participant has joined, it asks some
/// time of each link that it uses.
struct PricedExchange {
  LinkLoads loads;
  ExchangeTime alone;  // with the network to itself

  Seconds start() const { return alone.overhead + alone.latency; }
};
/// Shared by all who need it, because it takes long to work out.
using ExchangePrice = std::shared_ptr<const PricedExchange>;

ExchangePrice price(const Topology& topology, const GroupTraffic& traffic,
                    const Carrier& carrier = {});
/// The same of loads that are known.
ExchangePrice price(const Topology& topology, const GroupTraffic& traffic, LinkLoads loads,
                    const Carrier& carrier);
/// Takes a matrix over all GPUs.
ExchangePrice price(const Topology& topology, const ByteMatrix& traffic,
                    const Carrier& carrier = {});

/// How long exchanges take that all join together and share the links evenly: every link serves
/// those with bytes for it by processor sharing, each from its own start() on, and an exchange ends
/// with its last link. A single one takes alone.total().
std::vector<Seconds> shared_times(const std::vector<ExchangePrice>& exchanges);

}  // namespace moesim
