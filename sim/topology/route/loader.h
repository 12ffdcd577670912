// SPDX-License-Identifier: Apache-2.0
// One pass over the matrix sums units per destination and per (source, entrance); the sums are then
// pushed out of the hosts, through the fabric and into the hosts along the equal-cost next hops.
// Only entrances of members count, as most exchanges join a few hosts of many. Rows are summed at
// the speed of memory: thousands of GPUs have hundreds of millions of entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/add_up.h"
#include "sim/base/byte_matrix.h"
#include "sim/base/place_of.h"
#include "sim/topology/route/routes.h"

namespace moesim {

/// The entrances that members of an exchange need, numbered from 0.
struct MemberEntrances {
  MemberEntrances(const Routes& routes, std::span<const GpuId> members);

  std::vector<int> used;          // indices into Routes::entrances(), ascending
  std::vector<int> of_member;     // into `used`; -1: nothing outside its host needs to reach it
  std::vector<std::size_t> same;  // members from here on with this one's entrance
  bool in_long_runs = true;       // many neighbours share one, on the whole
};

/// Members by their hosts, ascending within one.
std::vector<int> members_by_host(const Routes& routes, std::span<const GpuId> members);

/// Consecutive entries of a compressed row.
class SparsePart {
 public:
  explicit SparsePart(std::span<const ByteMatrix::Entry> entries) : entries_(entries) {}
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::size_t to(std::size_t i) const { return entries_[i].to.index(); }
  const std::uint32_t* units(std::size_t i) const { return &entries_[i].units; }
  /// The place of the first entry for a member or one after it.
  std::size_t place(int member) const {
    return place_of(entries_, GpuId(member), &ByteMatrix::Entry::to);
  }
  SparsePart part(std::size_t first, std::size_t last) const {
    return SparsePart(entries_.subspan(first, last - first));
  }
  /// Whether destinations follow each other without a gap.
  bool gapless() const { return empty() || to(size() - 1) - to(0) == size() - 1; }

 private:
  std::span<const ByteMatrix::Entry> entries_;
};

/// The same of a row with a count for every member, zeros among them.
class DensePart {
 public:
  explicit DensePart(std::span<const std::uint32_t> counts, std::size_t first = 0)
      : counts_(counts), first_(first) {}
  std::size_t size() const { return counts_.size(); }
  bool empty() const { return counts_.empty(); }
  std::size_t to(std::size_t i) const { return first_ + i; }
  const std::uint32_t* units(std::size_t i) const { return &counts_[i]; }
  std::size_t place(int member) const {
    const auto at = static_cast<std::size_t>(member);
    return at < first_ ? 0 : std::min(at - first_, size());
  }
  DensePart part(std::size_t first, std::size_t last) const {
    return DensePart(counts_.subspan(first, last - first), first_ + first);
  }
  static bool gapless() { return true; }

 private:
  std::span<const std::uint32_t> counts_;
  std::size_t first_;  // member
};

/// Calls visit(part) for a whole row.
template <class Visit>
void visit_row(const ByteMatrix::Row& row, Visit visit) {
  row.dense() ? visit(DensePart(row.counts())) : visit(SparsePart(row.entries()));
}

/// Adds the units of every entry to inbound[to]; returns their sum.
template <class Part>
std::int64_t add_inbound(const Part& entries, std::int64_t* inbound) {
  if (entries.empty()) return 0;
  const auto units = [&](std::size_t i) { return entries.units(i); };
  if (entries.gapless()) {
    return add_up(entries.size(), units, inbound + entries.to(0), [](std::size_t i) { return i; });
  }
  return add_up(entries.size(), units, inbound, [&](std::size_t i) { return entries.to(i); });
}

class LinkSums {
 public:
  /// Sums for so many links, none of them used.
  explicit LinkSums(std::size_t links) : place_(std::exchange(spare(), {})) {
    if (place_.size() < links) place_.resize(links, unused);
  }
  LinkSums(const LinkSums&) = delete;
  LinkSums& operator=(const LinkSums&) = delete;
  ~LinkSums() {
    forget_places();
    spare() = std::move(place_);
  }

  void put(int link, const Load& load) {
    if (load.bytes == 0) return;
    std::int32_t& place = place_[static_cast<std::size_t>(link)];
    if (place == unused) {
      place = static_cast<std::int32_t>(loads_.uses.size());
      loads_.uses.push_back({LinkId(link), Bytes(0), Seconds(0), Seconds(Load().latency)});
    }
    LinkUse& use = loads_.uses[static_cast<std::size_t>(place)];
    use.bytes += Bytes(load.bytes);
    use.first = std::min(use.first, Seconds(load.latency));
  }

  /// So many bytes of the exchange use a route of this latency.
  void note_latency(double seconds, std::int64_t bytes) {
    loads_.latency.value = std::max(loads_.latency.value, seconds);
    waited_ += seconds * static_cast<double>(bytes);
    bytes_ += bytes;
  }

  /// The sums without their times, the links ascending. Leaves nothing behind.
  LinkLoads take() {
    std::vector<LinkUse> ascending;
    ascending.reserve(loads_.uses.size());
    for (const std::size_t place : places_by_link()) ascending.push_back(loads_.uses[place]);
    forget_places();
    loads_.uses = std::move(ascending);
    if (bytes_ > 0) loads_.mean.value = waited_ / static_cast<double>(bytes_);
    return std::move(loads_);
  }

 private:
  static constexpr std::int32_t unused = -1;
  double waited_ = 0;       // latencies x bytes
  std::int64_t bytes_ = 0;  // of all noted routes
  /// Places of nothing, from one exchange to the next: to make a place for every link of a large
  /// cluster takes longer than to price an exchange of few GPUs.
  static std::vector<std::int32_t>& spare() {
    static thread_local std::vector<std::int32_t> places;
    return places;
  }
  std::vector<std::size_t> places_by_link() const {
    constexpr std::size_t few = 16;  // of so many links one is used: sorting takes less than a look
    std::vector<std::size_t> places;
    places.reserve(loads_.uses.size());
    if (loads_.uses.size() > place_.size() / few) {
      for (const std::int32_t place : place_) {
        if (place != unused) places.push_back(static_cast<std::size_t>(place));
      }
      return places;
    }
    constexpr int bits = 32;  // the link above, the place below: uses themselves are large to move
    for (std::size_t place = 0; place < loads_.uses.size(); ++place) {
      places.push_back(loads_.uses[place].link.index() << bits | place);
    }
    std::ranges::sort(places);
    for (std::size_t& place : places) place &= (std::size_t{1} << bits) - 1;
    return places;
  }
  void forget_places() {
    for (const LinkUse& use : loads_.uses) place_[use.link.index()] = unused;
  }

  std::vector<std::int32_t> place_;  // per link, in loads_.uses
  LinkLoads loads_;
};

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
  std::vector<Load> leaving_;         // per path out and GPU of the host; none between hosts
  std::vector<bool> leaves_by_;       // per path out: whether something is leaving
  std::vector<Load> choosing_;        // per GPU of the host and entrance, if there is a choice
  std::vector<Load> at_, through_port_, arrived_;
  std::vector<Dag::Hop> hops_;
};

}  // namespace moesim
