// SPDX-License-Identifier: Apache-2.0
// One pass over the matrix sums units per destination and per (source, entrance); the sums are then
// pushed out of the hosts, through the fabric and into the hosts along the equal-cost next hops.
// Only entrances of members count, as most exchanges join a few hosts of many.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/topology/route/link_sums.h"
#include "sim/topology/route/member_entrances.h"
#include "sim/topology/route/row_sums.h"

namespace moesim {

/// The bytes of one exchange on their way; see link_loads.
class Loader {
 public:
  Loader(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
         std::span<const GpuId> members, bool transposed);

  LinkLoads run();

 private:
  int gpu(int member) const { return members_[static_cast<std::size_t>(member)].value; }

  const Entrance& entrance(std::size_t e) const;
  /// Units for GPUs of other hosts. Everything else works on these sums, so the number of pairs
  /// counts only here.
  template <class Part>
  void sum_sent(Part entries, std::int64_t* sums);
  template <class Part>
  void sum_each(const Part& entries, std::int64_t* sums);
  template <class Part>
  void sum_row(const Part& row, int member, std::span<const int> members, std::int64_t* sums);
  template <class Part>
  void sum_received(const Part& row, int to, std::span<const int> members);
  void leave_host(int h, std::span<const int> members);
  void stay_inside(const Host& host);
  /// Pushes what is in at_ along a DAG of the host.
  void push(const Host& host, const Dag& dag);
  /// Sends remote_ to the host's ports and notes what enters the fabric where. If no GPU has a
  /// choice of ports, entrances with the same path out share one push.
  void go_out(int h);
  int egress_of(const Attachment& attachment, std::size_t e) const;
  /// Pushes load[g * stride] from every GPU g; through_port_ says what left by which port.
  bool push_out(const Host& host, const Egress& egress, const Load* load, std::size_t stride);
  /// Takes the entrances in blocks, so that a row of entering_ is read a cache line at a time.
  void cross_fabric();
  /// Sends what is at the fabric's vertices to one entrance, from the farthest vertex on.
  void cross_fabric(std::size_t e, std::vector<Load>& at);
  /// Adds the links from a fabric vertex straight into the host, as hops to -1 - their number.
  void add_down_hops(const Entrance& entrance, int v);
  /// GPUs entered from one fabric vertex: all that is bound for them comes from there.
  void enter_hosts();
  /// loads[d] comes by the GPU's d-th path in.
  void enter_host(int gpu, const std::vector<Load>& loads);

  const Routes& routes_;
  ByteMatrix traffic_;
  std::span<const GpuId> members_;
  MemberEntrances entrances_;
  std::size_t width_;  // how many
  /// Rows are what members receive. Sums per source and entrance are kept for all sources then; if
  /// that is more than the matrix has, it is turned.
  bool receives_;
  static constexpr std::size_t small_table = 1 << 16;
  std::vector<std::int64_t> sent_;  // units per member and entrance, if receives_
  LinkSums sums_;
  bool crosses_ = false;                     // whether anything leaves its host
  std::vector<std::int64_t> inbound_;        // units per member from outside its host
  std::vector<std::vector<Load>> entering_;  // per fabric vertex and entrance
  std::vector<double> first_in_;             // per entrance the least latency of a route

  // Reused by the steps above.
  std::vector<std::int64_t> remote_;  // units per GPU of the host and entrance
  std::vector<std::int64_t> local_;   // bytes per destination and source GPU of the host
  std::vector<Load> leaving_;         // per path out and GPU of the host
  std::vector<Load> choosing_;        // per GPU of the host and entrance, if there is a choice
  std::vector<Load> at_, through_port_, arrived_;
  std::vector<Dag::Hop> hops_;
};

}  // namespace moesim
