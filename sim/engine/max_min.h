// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates of flows over links.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Flows that share the bandwidth of the links of their routes fairly: no flow could have more but
/// for one that has less. Rates change only where flows come and go: in the flows that a chain of
/// shared links connects to these.
///
/// A rate is the share of the flow's bottleneck. Filling goes by the least share first:
///   share = (bandwidth - rates of the flows fixed) / flows not fixed,
/// whose flows are fixed at it, until all are. Shares of other links can only grow by that, so that
/// a heap of them is corrected where it is read.
class MaxMin {
 public:
  using Flow = std::int32_t;  // an id, free again when the flow has ended
  /// What a link yields to so many flows.
  using Yield = std::function<BytesPerSecond(int flows)>;
  /// Flows that end at one time, unless a flow that comes or goes before changes their rates.
  struct Batch {
    Seconds time;
    std::uint32_t number;
    std::vector<Flow> flows;  // ascending
  };

  void add_link(BytesPerSecond bandwidth);  // numbered from 0
  void add_link(Yield yield);
  /// Returns its number.
  int add_route(std::span<const LinkId> links);

  /// It has no rate until settle(). Its end may be taken to be up to `window` from what it is, at
  /// the time of others that are connected to it.
  Flow start(int route, Bytes bytes, Seconds window);
  /// What the link yields has changed.
  void change(LinkId link);
  /// Fills anew what has changed; returns a batch for every set of connected flows in it.
  std::vector<Batch> settle(Seconds now);
  /// Ends those of the batch whose rates are still what they were when it was returned.
  std::vector<Flow> end(const Batch& batch);
  /// Since settle().
  BytesPerSecond rate(Flow flow) const {
    return BytesPerSecond(flows_[static_cast<std::size_t>(flow)].rate);
  }

 private:
  struct Link {
    double bandwidth;
    Yield yield;  // none: the bandwidth
    std::vector<Flow> flows;
    std::uint32_t seen = 0;  // in which settle()
    bool changed = false;
  };
  /// The part of a link that filling looks at.
  struct Room {
    double left;  // of the bandwidth
    int open;     // flows that have no rate yet
  };
  struct State {
    double end;   // in s; of a flow without a rate its bytes
    double rate;  // in bytes/s
    float window;
    std::uint32_t hops;   // where its route begins in hops_
    std::uint32_t stamp;  // 2 x settle(), 1 more if its rate is fixed
    std::uint32_t batch;  // 0: none
  };
  struct Share {
    double of_flow;
    std::int32_t link;
  };
  static bool larger(const Share& a, const Share& b) {
    return std::pair(a.of_flow, a.link) > std::pair(b.of_flow, b.link);
  }

  void touch(std::int32_t link);
  void reach(std::int32_t link);
  void fill(double now);
  void fix(std::int32_t link, double share, double now);
  Batch batch();

  std::vector<Link> links_;
  std::vector<Room> rooms_;           // [link]
  std::vector<std::int32_t> hops_;    // of the routes, each followed by -1
  std::vector<std::uint32_t> route_;  // into hops_
  std::vector<State> flows_;
  std::vector<Flow> free_, ended_;
  std::vector<std::int32_t> changed_;  // links
  std::uint32_t settles_ = 0, batches_ = 0;

  // Connected links and flows, and the shares of links that are not filled.
  std::vector<std::int32_t> near_links_;
  std::vector<Flow> near_flows_;
  std::vector<Share> shares_;
  double first_end_ = 0, window_ = 0;
};

}  // namespace moesim
