// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates of flows over links.
#pragma once

#include <array>
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
///
/// Rates are not worked out anew for every flow that comes or goes but once for those of a window.
/// Until then a flow that has ended leaves its share unused, or one whose end is near uses it
/// longer; a flow that has come takes what it should have had. Links keep account of both, and the
/// flows that fill them pay (or are paid) when rates are worked out next.
class MaxMin {
 public:
  using Flow = std::int32_t;  // an id, free again some time after the flow has ended
  /// What a link yields to so many flows.
  using Yield = std::function<BytesPerSecond(int flows)>;
  struct Ending {
    Seconds time;
    Flow flow;
  };
  /// Flows that end near each other, unless rates are worked out before.
  struct Batch {
    Seconds time;  // when to leave(); some of them have ended by then
    std::uint32_t number;
    std::int32_t set;
    std::vector<Ending> endings;  // by time
  };

  void add_link(BytesPerSecond bandwidth);  // numbered from 0
  void add_link(Yield yield);
  /// Returns its number.
  int add_route(std::span<const LinkId> links);

  /// It has no rate until settle(). Rates may be worked out up to about `window` late or early.
  Flow start(int route, Bytes bytes, Seconds window, Seconds now);
  /// What the link yields has changed.
  void change(LinkId link);
  /// When to settle() what has changed: now, if not so few flows have come since the last time.
  Seconds due(Seconds now) const;
  /// Fills anew what has changed; returns a batch for every set of connected flows in it.
  std::vector<Batch> settle(Seconds now);
  /// Ends a flow of the batch, at its time if that is not after the batch's. Returns false if rates
  /// have been worked out since.
  bool end(const Batch& batch, std::size_t place);
  /// At the batch's time: its other flows leave their links. Returns them; they end at their times.
  std::vector<Ending> leave(const Batch& batch);
  /// Since settle().
  BytesPerSecond rate(Flow flow) const {
    return BytesPerSecond(flows_[static_cast<std::size_t>(flow)].rate);
  }

 private:
  struct Link {
    double bandwidth;
    Yield yield;              // none: the bandwidth
    std::vector<Flow> flows;  // ended ones, too, until the set is tidied
    int open = 0;             // of them
    int filling = 0;          // open flows whose bottleneck it is
    std::int32_t set = -1;    // none: no flow
    // Bytes that flows took for which there was no room by a time: debt - unused * time.
    double debt = 0, unused = 0;
  };
  /// The part of a link that filling looks at.
  struct Room {
    double left;  // of the bandwidth
    int open;     // flows that have no rate yet
  };
  struct State {
    double end;   // in s; of a flow without a rate its bytes
    double rate;  // in bytes/s; below 0: it has ended
    float window;
    std::uint32_t hops;       // where its route begins in hops_
    std::uint32_t batch;      // 0: none
    std::int32_t bottleneck;  // -1: none yet
  };
  /// A route of few hops, which ends at one below 0. A flow has its own next to what is
  /// looked at with it: a route by its number is somewhere else.
  struct alignas(32) NearRoute {
    std::array<std::int32_t, 8> hops;
  };
  /// Flows that shared links connect, and their links. It may consist of several such sets if flows
  /// that connected them have ended: looking for that takes as long as filling it.
  struct Set {
    std::vector<std::int32_t> links;
    std::vector<Flow> flows;          // ended ones, too, until it is tidied
    std::size_t ended = 0;            // of them
    std::size_t connected = 0;        // flows when it was last known to be one
    std::vector<Flow> fresh;          // that have no rate
    double filled = 0, patience = 0;  // when, and for how long flows that come may wait
    std::uint32_t batch = 0;          // its last
    bool changed = false, urgent = false;
    std::vector<Flow> tree;      // that connected so many links
    std::size_t tree_links = 0;  // 0: it is not known
  };
  struct Share {
    double of_flow;
    std::int32_t link;
  };
  struct Larger {
    bool operator()(const Share& a, const Share& b) const {
      return a.of_flow > b.of_flow || (a.of_flow == b.of_flow && a.link > b.link);
    }
  };
  Link& link_at(std::int32_t link) { return links_[static_cast<std::size_t>(link)]; }
  State& flow_at(Flow flow) { return flows_[static_cast<std::size_t>(flow)]; }
  /// Up to the first below 0.
  const std::int32_t* hops_of(Flow flow) const {
    const NearRoute& near = near_[static_cast<std::size_t>(flow)];
    const State& state = flows_[static_cast<std::size_t>(flow)];
    return near.hops[0] < 0 ? &hops_[state.hops] : near.hops.data();
  }
  void keep_near(Flow flow, std::uint32_t first);
  Set& set_at(std::int32_t set) { return sets_[static_cast<std::size_t>(set)]; }

  // flow_sets.cpp
  std::int32_t new_set();
  std::int32_t join_sets(const std::int32_t* hops);
  void touch(std::int32_t set, bool urgent);
  void tidy(Set& set);
  bool is_connected(Set& set);
  void drop_idle_links(Set& set);
  std::vector<std::int32_t> parts_of(std::int32_t set);
  void reach(std::int32_t link, std::int32_t set);

  void fill(const Set& set, double now);
  void offer(const Set& set, double now);
  void sink(Share share);
  void fix(std::int32_t link, double share, double now);
  void fetch_ahead(const std::vector<Flow>& flows, std::size_t at) const;
  void catch_up(Set& set, double now);
  Batch batch(std::int32_t set, double now);
  void go(Flow id, double end);

  std::vector<Link> links_;
  std::vector<Room> rooms_;           // [link]
  std::vector<double> owed_;          // [link] by each flow whose bottleneck it was
  std::vector<double> spare_;         // [link] bytes that it could have moved since the last time
  std::vector<std::int32_t> hops_;    // of the routes, each followed by -1
  std::vector<std::uint32_t> route_;  // into hops_
  std::vector<State> flows_;
  std::vector<NearRoute> near_;       // [flow] without hops if they are too many
  std::vector<std::uint32_t> fixed_;  // [flow] in which filling its rate was; never again if ended
  std::vector<double> came_;          // [flow] when
  std::vector<Flow> free_, ended_;
  std::vector<Set> sets_;
  std::vector<std::int32_t> free_sets_, changed_;  // sets
  std::uint32_t fills_ = 0, batches_ = 0;

  std::vector<std::uint32_t> reached_;  // [link] by which look for what is connected
  std::uint32_t reaches_ = 0;           // of these looks
  std::vector<std::int32_t> found_;     // links of the last

  std::vector<Share> shares_;    // of links that are not filled
  std::vector<Ending> endings_;  // of the batch in the making
  double first_end_ = 0, window_ = 0;
};

}  // namespace moesim
