// SPDX-License-Identifier: Apache-2.0
// Cuts a cluster into hosts and fabric, and finds hosts that are copies of each other.
#include "sim/topology/route/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim {
namespace {

/// A host in the making: what decides its type, in its own numbers.
struct HostDraft {
  std::vector<Arc> arcs;
  std::vector<int> gpus;
  std::vector<Port> up, down;
  int vertices = 0;

  /// Equal for hosts that route alike.
  std::vector<std::int64_t> signature() const {
    std::vector<std::int64_t> out = {vertices};
    const auto bits = [](double latency) {
      std::int64_t word = 0;
      std::memcpy(&word, &latency, sizeof word);
      return word;
    };
    for (const Arc& a : arcs)
      out.insert(out.end(), {a.from, a.to, a.cost, bits(a.latency), a.link});
    for (const int gpu : gpus) out.insert(out.end(), {-1, gpu});
    for (const Port& p : up) out.insert(out.end(), {-2, p.vertex, p.cost, bits(p.latency), p.link});
    for (const Port& p : down) out.insert(out.end(), {-3, p.vertex, p.cost, bits(p.latency)});
    return out;
  }
};

/// A gigabyte and a few seconds: a node of 4,096 GPUs at a switch takes half of the one, a mesh of
/// 900 GPUs most of the other.
constexpr double most_targets_and_vertices = 1 << 25, most_targets_and_links = 1e9;

/// Adds up what the routes inside of a cluster's hosts take, kept for each target: a GPU, or a port
/// out of the host.
class HostRoutesSize {
 public:
  void add(const HostDraft& host) {
    const auto targets = static_cast<double>(host.gpus.size() + host.up.size());
    with_vertices_ += targets * host.vertices;
    with_links_ += targets * static_cast<double>(host.arcs.size());
    if (with_vertices_ <= most_targets_and_vertices && with_links_ <= most_targets_and_links)
      return;
    throw Error(fmt::format("the routes inside a host of {} GPUs, {} ports, {} vertices and {} "
                            "links are too many to compute",
                            host.gpus.size(), host.up.size(), host.vertices, host.arcs.size()),
                "fewer GPUs or links in a host");
  }

 private:
  double with_vertices_ = 0, with_links_ = 0;
};

HostType make_type(HostDraft draft) {
  HostType type(Digraph(draft.vertices, std::move(draft.arcs)));
  type.gpus = std::move(draft.gpus);
  type.up = std::move(draft.up);
  type.down = std::move(draft.down);
  for (const int gpu : type.gpus) {
    std::vector<int> distance = type.inside.distances_to(gpu);
    type.to_gpu.push_back(dag_toward(type.inside, distance));
    type.latency_to_gpu.push_back(
        longest_latency(type.inside, distance, std::vector<double>(distance.size(), 0)));
    for (const int other : type.gpus) {
      if (distance[other] == unreachable) type.connected = false;
    }
    type.distance_to_gpu.push_back(std::move(distance));
  }
  for (const Port& port : type.up) {
    type.distance_to_port.push_back(type.inside.distances_to(port.vertex));
  }
  return type;
}

/// Hands every link to the host it leaves, the host it enters, or the fabric.
class Cutter {
 public:
  explicit Cutter(const Topology::Parts& parts)
      : parts_(parts), local_(parts.vertices.size()), host_count_(count_hosts()) {
    borders_.hosts.resize(host_count_);
    drafts_.resize(host_count_);
    place_vertices();
    for (std::size_t id = 0; id < parts.links.size(); ++id) place_link(static_cast<int>(id));
    for (std::size_t rank = 0; rank < parts.gpus.size(); ++rank) {
      const std::size_t v = parts.gpus[rank].index();
      const auto h = static_cast<std::size_t>(parts.vertices[v].host);
      borders_.hosts[h].gpus.push_back(static_cast<int>(rank));
      drafts_[h].gpus.push_back(local_[v]);
    }
  }

  Borders take() {
    std::map<std::vector<std::int64_t>, int> known;
    HostRoutesSize size;
    for (std::size_t h = 0; h < host_count_; ++h) {
      Host& host = borders_.hosts[h];
      const auto [at, fresh] =
          known.try_emplace(drafts_[h].signature(), static_cast<int>(borders_.types.size()));
      if (fresh) {
        size.add(drafts_[h]);
        borders_.types.push_back(make_type(std::move(drafts_[h])));
      }
      host.type = at->second;
      host.fabric_up = host.up_switch;
      sort_once(host.fabric_up);
    }
    return std::move(borders_);
  }

 private:
  std::size_t count_hosts() const {
    int most = -1;
    for (const Vertex& v : parts_.vertices) most = std::max(most, v.host);
    return static_cast<std::size_t>(most + 1);
  }

  void place_vertices() {
    for (std::size_t v = 0; v < parts_.vertices.size(); ++v) {
      const int host = parts_.vertices[v].host;
      if (host < 0) {
        local_[v] = borders_.fabric_vertices++;
      } else {
        local_[v] = drafts_[host].vertices++;
        borders_.hosts[host].vertices.push_back(static_cast<int>(v));
      }
    }
  }

  void place_link(int id) {
    const Link& link = parts_.links[id];
    const int from_host = parts_.vertices[link.from.index()].host;
    const int to_host = parts_.vertices[link.to.index()].host;
    const int from = local_[link.from.index()];
    const int to = local_[link.to.index()];
    const double latency = link.latency.value;
    if (from_host < 0 && to_host < 0) {
      borders_.fabric_arcs.push_back({from, to, link.cost, latency, id});
    } else if (from_host < 0) {
      enter(to_host, to, from, link.cost, latency, id);
    } else if (to_host < 0) {
      leave(from_host, from, to, link.cost, latency, id);
    } else if (from_host == to_host) {
      Host& host = borders_.hosts[from_host];
      const int number = static_cast<int>(host.out_links.size());
      host.out_links.push_back(id);
      drafts_[from_host].arcs.push_back({from, to, link.cost, latency, number});
    } else {
      const int between = borders_.fabric_vertices++;
      leave(from_host, from, between, link.cost, latency, id);
      enter(to_host, to, between, 0, 0, -1);
    }
  }

  void leave(int h, int vertex, int fabric, int cost, double latency, int id) {
    Host& host = borders_.hosts[h];
    const int number = static_cast<int>(host.out_links.size());
    host.out_links.push_back(id);
    host.up_switch.push_back(fabric);
    drafts_[h].up.push_back({vertex, cost, latency, number});
  }

  void enter(int h, int vertex, int fabric, int cost, double latency, int id) {
    Host& host = borders_.hosts[h];
    const int number = static_cast<int>(host.down_links.size());
    host.down_links.push_back(id);
    host.down_switch.push_back(fabric);
    drafts_[h].down.push_back({vertex, cost, latency, number});
  }

  const Topology::Parts& parts_;
  std::vector<int> local_;  // a vertex's number within its host or the fabric
  std::size_t host_count_;
  Borders borders_;
  std::vector<HostDraft> drafts_;
};

}  // namespace

Borders cut_at_hosts(const Topology::Parts& parts) { return Cutter(parts).take(); }

}  // namespace moesim
