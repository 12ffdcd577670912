// SPDX-License-Identifier: Apache-2.0
// The cluster's parts, checked, with their routes.
#include "sim/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/topology/asymptote.h"
#include "sim/topology/cluster_limits.h"
#include "sim/topology/route/host_routes.h"
#include "sim/topology/route/loads.h"
#include "sim/topology/route/paths.h"
#include "sim/topology/route/routes.h"
#include "sim/topology/seen_gpus.h"

namespace moesim {

namespace {

[[noreturn]] void fail(const Topology::Parts& parts, const std::string& message) {
  throw Error(parts.name + ": " + message);
}

void check_vertices(const Topology::Parts& parts) {
  std::set<std::string> names;
  for (const Vertex& v : parts.vertices) {
    if (!names.insert(v.name).second) fail(parts, "two vertices are named " + v.name);
    if (v.host < -1 || v.host >= std::ssize(parts.vertices)) {  // hosts are numbered from 0
      fail(parts, fmt::format("{} has host {}", v.name, v.host));
    }
  }
  if (parts.gpus.empty()) fail(parts, "there are no GPUs");
  if (parts.gpu_model.size() != parts.gpus.size()) {
    fail(parts,
         fmt::format("{} GPUs but {} GPU models", parts.gpus.size(), parts.gpu_model.size()));
  }
  for (const VertexId gpu : parts.gpus) {
    if (gpu.index() >= parts.vertices.size()) fail(parts, "a rank has no vertex");
    const Vertex& v = parts.vertices[gpu.index()];
    if (v.kind != VertexKind::gpu) fail(parts, v.name + " is ranked but is not a GPU");
    if (v.host < 0) fail(parts, v.name + " is a GPU without a host");
  }
}

void check_links(const Topology::Parts& parts) {
  for (const Link& link : parts.links) {
    if (link.from.index() >= parts.vertices.size() || link.to.index() >= parts.vertices.size()) {
      fail(parts, "a link has an end that is not a vertex");
    }
    const std::string name =
        parts.vertices[link.from.index()].name + " -> " + parts.vertices[link.to.index()].name;
    if (link.from == link.to) fail(parts, "the link " + name + " goes nowhere");
    if (!(link.bandwidth.value > 0)) fail(parts, "the link " + name + " has no bandwidth");
    if (!(link.latency.value >= 0)) fail(parts, "the link " + name + " has a negative latency");
    const Crowding& crowded = link.crowded;
    if (crowded.pairs != 0 &&
        !(crowded.from >= 1 && crowded.pairs > crowded.from && crowded.bandwidth.value > 0 &&
          crowded.bandwidth <= link.bandwidth)) {
      fail(parts, "the link " + name + " cannot be crowded like that");
    }
    if (link.table && link.bandwidth != asymptote_of(*link.table)) {
      fail(parts, "the link " + name + " has another bandwidth than its table");
    }
    if (link.cost < 1) fail(parts, "the link " + name + " has a routing cost below 1");
    if (link.cost > most_link_cost) {
      fail(parts, fmt::format("the link {} has a routing cost above {}", name, most_link_cost));
    }
    if (link.link_class < 0 || link.link_class >= static_cast<int>(parts.classes.size())) {
      fail(parts, "the link " + name + " has no class");
    }
  }
}

void check_levels(const Topology::Parts& parts) {
  for (const Level& level : parts.levels) {
    if (level.group_of.size() != parts.gpus.size()) {
      fail(parts, fmt::format("level '{}' tells the groups of {} GPUs, not {}", level.name,
                              level.group_of.size(), parts.gpus.size()));
    }
    for (const int group : level.group_of) {
      if (group >= 0 && group < level.groups && level.groups <= std::ssize(parts.gpus)) continue;
      fail(parts, fmt::format("level '{}' has a group {} of {}", level.name, group, level.groups));
    }
  }
}

/// The same pairs with one byte each: its loads are the pairs on every link.
ByteMatrix pairs_of(const ByteMatrix& traffic) {
  ByteMatrix pairs;
  std::vector<ByteMatrix::Entry> row;
  for (const GpuId from : ids<GpuId>(traffic.ranks())) {
    row.assign(traffic.row(from).begin(), traffic.row(from).end());
    for (ByteMatrix::Entry& entry : row) entry.units = 1;
    pairs.add_row(row);
  }
  return pairs;
}

Topology::Parts checked(Topology::Parts parts) {
  check_vertices(parts);
  check_links(parts);
  check_levels(parts);
  if (!(parts.exchange_overhead.value >= 0 && parts.peer_overhead.value >= 0)) {
    fail(parts, "an overhead is below 0");
  }
  return parts;
}

std::vector<GpuId> ranks_of(int gpus) {
  std::vector<GpuId> ranks;
  for (const GpuId rank : ids<GpuId>(gpus)) ranks.push_back(rank);
  return ranks;
}

}  // namespace

int most_peers(const ByteMatrix& traffic) {
  int most = 0;
  for (const GpuId rank : ids<GpuId>(traffic.ranks())) {
    const bool keeps_some = traffic.at(rank, rank) > Bytes(0);
    most = std::max(most, static_cast<int>(std::ssize(traffic.row(rank))) - keeps_some);
  }
  if (most == traffic.ranks() - 1) return most;
  std::vector<int> senders(static_cast<std::size_t>(traffic.ranks()));
  for (const GpuId rank : ids<GpuId>(traffic.ranks())) {
    for (const ByteMatrix::Entry& entry : traffic.row(rank)) {
      if (entry.to != rank) most = std::max(most, ++senders[entry.to.index()]);
    }
  }
  return most;
}

struct Topology::Cluster {
  explicit Cluster(Parts p)
      : parts(checked(std::move(p))),
        routes(parts),
        host_routes(find_host_routes(parts)),
        crowds(std::any_of(parts.links.begin(), parts.links.end(),
                           [](const Link& link) { return link.crowded.pairs > 0; })) {}
  Parts parts;
  Routes routes;
  std::vector<HostRoute> host_routes;  // [rank], or empty
  bool crowds;                         // some link yields less when crowded
  mutable RateLooks looks{.classes = std::vector<std::uint64_t>(parts.classes.size())};

  /// The parts, for who asks for what exchanges cost.
  const Parts& overheads() const {
    ++looks.overheads;
    return parts;
  }
  const Link& link(LinkId id) const {
    const Link& found = parts.links[id.index()];
    ++looks.classes[static_cast<std::size_t>(found.link_class)];
    return found;
  }
};

struct Topology::Impl {
  std::shared_ptr<const Cluster> cluster;
  SeenGpus gpus;
  std::vector<int> host_of;  // per rank
  int hosts;
  std::vector<Level> levels;
  std::vector<GpuId> ranks;

  static std::unique_ptr<Impl> whole(Parts parts) {
    auto cluster = std::make_shared<const Cluster>(std::move(parts));
    std::vector<int> host_of;
    const auto gpus = static_cast<int>(cluster->parts.gpus.size());
    for (int gpu = 0; gpu < gpus; ++gpu) host_of.push_back(cluster->routes.host_of(gpu));
    return std::unique_ptr<Impl>(new Impl{cluster, SeenGpus(gpus), std::move(host_of),
                                          cluster->routes.hosts(), cluster->parts.levels,
                                          ranks_of(gpus)});
  }

  std::unique_ptr<Impl> slice(const std::vector<GpuId>& seen) const {
    SeenGpus among = gpus.of(seen);
    std::vector<int> hosts_seen;
    for (const GpuId gpu : seen) hosts_seen.push_back(host_of[gpu.index()]);
    hosts_seen = numbered_anew(hosts_seen);
    const int count = std::ranges::max(hosts_seen) + 1;
    return std::unique_ptr<Impl>(new Impl{cluster, std::move(among), std::move(hosts_seen), count,
                                          levels_among(levels, seen),
                                          ranks_of(static_cast<int>(seen.size()))});
  }
};

Topology::Topology(Parts parts) : impl_(Impl::whole(std::move(parts))) {}
Topology::Topology(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;

Topology Topology::of_gpus(const std::vector<GpuId>& gpus) const {
  return Topology(impl_->slice(gpus));
}

const std::string& Topology::name() const { return impl_->cluster->parts.name; }
int Topology::gpu_count() const { return impl_->gpus.size(); }
std::span<const GpuId> Topology::all_gpus() const { return impl_->ranks; }
int Topology::host_count() const { return impl_->hosts; }
int Topology::host_of(GpuId gpu) const { return impl_->host_of[gpu.index()]; }
VertexId Topology::vertex_of(GpuId gpu) const {
  return impl_->cluster->parts.gpus[impl_->gpus[gpu].index()];
}
const std::string& Topology::gpu_model(GpuId gpu) const {
  return impl_->cluster->parts.gpu_model[impl_->gpus[gpu].index()];
}
const std::vector<Vertex>& Topology::vertices() const { return impl_->cluster->parts.vertices; }
const std::vector<Link>& Topology::links() const {
  ++impl_->cluster->looks.all_links;
  return impl_->cluster->parts.links;
}
const Link& Topology::link(LinkId id) const { return impl_->cluster->link(id); }
std::size_t Topology::link_count() const { return impl_->cluster->parts.links.size(); }
bool Topology::crowds() const { return impl_->cluster->crowds; }
RateLooks Topology::rate_looks() const { return impl_->cluster->looks; }
const std::vector<LinkClass>& Topology::classes() const { return impl_->cluster->parts.classes; }
const std::vector<Level>& Topology::levels() const { return impl_->levels; }
Seconds Topology::exchange_overhead() const {
  return impl_->cluster->overheads().exchange_overhead;
}
Seconds Topology::peer_overhead() const { return impl_->cluster->overheads().peer_overhead; }
const std::string& Topology::network() const { return impl_->cluster->parts.network; }
const std::string& Topology::measured_with() const { return impl_->cluster->parts.measured_with; }
double Topology::overhead_factor() const { return impl_->cluster->overheads().overhead_factor; }

Seconds Topology::overhead_of(const ByteMatrix& traffic) const {
  if (traffic.ranks() == 1) return {};
  if (peer_overhead() == Seconds(0)) return exchange_overhead();
  return exchange_overhead() + peer_overhead() * most_peers(traffic);
}

const HostRoute* Topology::host_route(GpuId gpu) const {
  const Cluster& cluster = *impl_->cluster;
  if (cluster.host_routes.empty()) return nullptr;
  const HostRoute& route = cluster.host_routes[impl_->gpus[gpu].index()];
  return route.out.empty() ? nullptr : &route;
}

std::vector<Path> Topology::paths(GpuId from, GpuId to) const {
  if (from == to) throw std::invalid_argument("paths: a GPU has no route to itself");
  return all_paths(impl_->cluster->routes, impl_->gpus[from].value, impl_->gpus[to].value);
}

LinkUse LinkLoads::on(LinkId link) const {
  const auto at = std::ranges::lower_bound(uses, link, {}, &LinkUse::link);
  return at != uses.end() && at->link == link ? *at : LinkUse{link, {}, {}, {}};
}

LinkLoads Topology::loads(const ByteMatrix& traffic) const {
  return loads(GroupTraffic{traffic, all_gpus()});
}

LinkLoads Topology::loads(const GroupTraffic& traffic) const {
  if (traffic.matrix.ranks() != std::ssize(traffic.members)) {
    throw std::invalid_argument(fmt::format("loads: a matrix of {} ranks on {} GPUs",
                                            traffic.matrix.ranks(), traffic.members.size()));
  }
  if (traffic.with_hosts) return host_loads(*this, traffic);
  const Cluster& cluster = *impl_->cluster;
  std::vector<GpuId> gpus;  // as the cluster numbers them
  for (const GpuId member : traffic.members) gpus.push_back(impl_->gpus[member]);
  const auto put = [&](const ByteMatrix& matrix) {
    return link_loads(cluster.routes, link_count(), matrix, gpus, traffic.transposed);
  };
  LinkLoads loads = put(traffic.matrix);
  const Seconds round = traffic.ring ? loads.mean : loads.latency;
  const LinkLoads pairs = cluster.crowds ? put(pairs_of(traffic.matrix)) : LinkLoads{};
  for (LinkUse& use : loads.uses) {
    const Link& link = cluster.link(use.link);
    const auto crowd = cluster.crowds ? pairs.on(use.link).bytes.value : 0;
    set_time(use, link, cluster.crowds ? link.bandwidth_of(crowd) : link.bandwidth);
    use.first = std::min(use.first, round) * traffic.rounds;
  }
  loads.latency = round * traffic.rounds;
  if (traffic.rounds > 0) loads.overhead = overhead_of(traffic.matrix);
  return loads;
}

}  // namespace moesim
