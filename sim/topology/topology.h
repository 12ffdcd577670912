// SPDX-License-Identifier: Apache-2.0
// A cluster: a graph of GPUs, switches and NICs joined by directed links, with its routes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/group_traffic.h"
#include "sim/base/types.h"
#include "sim/topology/bandwidth_table.h"

namespace moesim {

enum class VertexKind { gpu, nvswitch, pcie_switch, socket, nic, leaf, spine, core, router };
const char* name_of(VertexKind kind);

/// How far a link reaches: inside a host, between hosts of a data center, between data centers.
/// Metrics check bytes against it: what leaves a host must appear on a fabric or WAN link.
enum class Tier { host, fabric, wan };
const char* name_of(Tier tier);

struct Vertex {
  std::string name;  // unique, such as "node0.gpu3"
  VertexKind kind;
  int host = -1;  // the host it belongs to, -1 for the fabric
};

/// Incast: a link yields less when many pairs of GPUs send over it at once. It yields its whole
/// bandwidth up to `from` pairs, `bandwidth` from `pairs` pairs on, and in between a bandwidth that
/// is linear in 1 / pairs.
struct Crowding {
  std::int64_t from = 1;
  std::int64_t pairs = 0;  // above `from`; 0: the link never yields less
  BytesPerSecond bandwidth;
  bool operator==(const Crowding&) const = default;
};

/// One direction of a cable. Latencies of a route add up; its bandwidth is the least on it.
struct Link {
  VertexId from, to;
  BytesPerSecond bandwidth;  // with a table its asymptote
  Seconds latency;
  int link_class = 0;  // index into Topology::classes()
  int cost = 1;        // routing cost, 1..most_link_cost: routes minimise its sum
  Crowding crowded = {};
  std::shared_ptr<const BandwidthTable> table = {};  // measured: it yields less to small exchanges

  /// What the link yields to `number` pairs of GPUs together.
  BytesPerSecond bandwidth_of(std::int64_t number) const;
  /// What it yields to one exchange that puts `size` bytes (> 0) on it, as a share of `bandwidth`.
  double part_of(Bytes size) const;
};

/// Links that are reported together, such as "nvlink" or "nic".
struct LinkClass {
  std::string name;
  Tier tier;
};

/// One nesting level, outermost first: groups of consecutive ranks, of equal size unless nodes
/// differ. In HierMoE's symbols `groups` of level i is U[i]; level 0 is the cluster.
struct Level {
  std::string name;           // "cluster", "data center", "node", "socket", "switch", "pair"
  std::vector<int> group_of;  // group of each GPU, ascending with the rank
  int groups = 0;
};

/// One of the equal-cost paths from a GPU to another; shares of a pair sum to 1.
struct Path {
  std::vector<LinkId> links;
  double share = 1;
};

/// The links between a GPU and the memory of its host, both ways.
struct HostRoute {
  std::vector<LinkId> out, back;
};

/// What an exchange asks of a link.
struct LinkUse {
  LinkId link;
  Bytes bytes;
  /// bytes / bandwidth, the bandwidth that the link yields to so many pairs of GPUs and to so many
  /// bytes.
  Seconds time;
  /// The least latency of the routes through the link, because a link starts with the first route
  /// that reaches it; rounds times. Routes to GPUs that are entered alike are taken together; of
  /// equal-cost paths the longest counts.
  Seconds first;
  /// What the link yields to the exchange of what it yields to so many pairs: less than 1 if the
  /// transport is slower, and if it was measured less or, above its asymptote, more.
  double part = 1;
  bool operator==(const LinkUse&) const = default;
};

/// What an exchange asks of the links, and the latencies of the routes it uses.
struct LinkLoads {
  std::vector<LinkUse> uses;  // links that carry bytes, ascending: few of many
  /// Rounds x the largest route latency over the pairs with traffic; of a ring x their mean,
  /// because bytes that go round take each hop once.
  Seconds latency;
  Seconds overhead;  // Topology::overhead_of
  Seconds mean;      // of route latencies, by bytes

  /// What it asks of one link, maybe nothing.
  LinkUse on(LinkId link) const;
};

/// Counts questions for what links yield and exchanges cost. What was worked out without such a
/// question holds for the same cluster at other rates.
struct RateLooks {
  std::uint64_t all_links = 0, overheads = 0;
  std::vector<std::uint64_t> classes = {};  // [link class] for loads of its links, or for one
};

/// The largest number of other GPUs that one GPU sends to, or receives from.
int most_peers(const ByteMatrix& traffic);

class Topology {
 public:
  /// The parts of a cluster, as a reader or a test makes them.
  struct Parts {
    std::string name;
    std::vector<Vertex> vertices;
    std::vector<Link> links;
    std::vector<LinkClass> classes;
    std::vector<VertexId> gpus;          // vertex of each rank
    std::vector<std::string> gpu_model;  // per rank, a name in models/gpu
    std::vector<Level> levels;
    Seconds exchange_overhead;       // added to every exchange (launch and synchronization)
    Seconds peer_overhead = {};      // times the largest number of peers that a GPU has in it
    std::string network = {};        // what its NICs are: "infiniband", "efa", ...; empty: unstated
    std::string measured_with = {};  // the transport in its rates and overheads; empty: in none
    double overhead_factor = 1;      // of what a transport costs in place of the overheads
    /// Per rank the vertex that its copies to the memory of its host go to: a socket, or what its
    /// PCIe link ends at. Empty, or an id below 0: nothing is known of that link.
    std::vector<VertexId> host_memory = {};
  };
  /// Computes the routes. Throws Error when two GPUs cannot reach each other.
  explicit Topology(Parts parts);
  ~Topology();
  Topology(Topology&&) noexcept;

  /// The same cluster seen by only some of its GPUs, as a pipeline stage is. They become ranks
  /// 0 .. n - 1 in the order given.
  ///  - Vertices, links, their ids and the routes are those of the whole, and shared with it:
  ///  cheap.
  ///  - Hosts and groups of levels are the ones that have ranks, numbered by their first rank. The
  ///    `host` of a vertex stays as in the whole.
  ///  - Levels nest as in the whole. Their groups are consecutive ranks if the order is ascending.
  /// Throws std::invalid_argument unless there is a GPU, and each is one of gpu_count(), once.
  Topology of_gpus(const std::vector<GpuId>& gpus) const;

  const std::string& name() const;
  int gpu_count() const;
  /// 0 .. gpu_count() - 1.
  std::span<const GpuId> all_gpus() const;
  int host_count() const;
  int host_of(GpuId gpu) const;
  VertexId vertex_of(GpuId gpu) const;
  const std::string& gpu_model(GpuId gpu) const;
  const std::vector<Vertex>& vertices() const;
  const std::vector<Link>& links() const;
  const Link& link(LinkId id) const;
  std::size_t link_count() const;
  const std::vector<LinkClass>& classes() const;
  const std::vector<Level>& levels() const;
  Seconds exchange_overhead() const;
  Seconds peer_overhead() const;
  const std::string& network() const;
  const std::string& measured_with() const;
  double overhead_factor() const;
  /// What a round of an exchange takes besides latency and bytes: exchange_overhead() +
  /// peer_overhead() x the largest number of other GPUs that one GPU sends to, or receives from;
  /// nothing of one GPU by itself.
  Seconds overhead_of(const ByteMatrix& traffic) const;

  /// The way that copies take to the memory of the host; null: the cluster does not say.
  const HostRoute* host_route(GpuId gpu) const;

  /// All equal-cost paths between two different GPUs, in a fixed order (lowest link ids first).
  std::vector<Path> paths(GpuId from, GpuId to) const;

  /// Puts every off-diagonal entry on its route. Equal-cost paths share evenly; the odd bytes go to
  /// the lowest link ids. O(entries + members x fabric switches): paths of single pairs would be
  /// too many at thousands of GPUs. Copies to the memory of hosts need their routes, and have no
  /// overhead.
  LinkLoads loads(const GroupTraffic& traffic) const;
  /// Takes a matrix over all GPUs.
  LinkLoads loads(const ByteMatrix& traffic) const;

  /// Whether some link yields less if it is crowded.
  bool crowds() const;
  /// How often anybody has asked for rates, also of a slice.
  RateLooks rate_looks() const;

 private:
  struct Cluster;  // what slices share
  struct Impl;
  explicit Topology(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moesim
