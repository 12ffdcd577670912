// SPDX-License-Identifier: Apache-2.0
// Counts the rows that must pass each port, and finds the port that needs longest for them.
#include "sim/report/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/report/sums.h"
#include "sim/report/token_needs.h"
#include "sim/topology/route/dijkstra.h"

namespace moesim {
namespace {

/// Rows that must pass every port on their way out.
PortBytes least_rows(const Topology& topology, const std::vector<TokenNeeds>& needs) {
  PortBytes rows{Ports<std::int64_t>(topology.host_count()),
                 Ports<std::int64_t>(topology.gpu_count())};
  std::set<int> entered;
  for (const TokenNeeds& token : needs) {
    const int home = topology.host_of(token.source);
    entered.clear();
    for (const GpuId target : token.targets) {
      ++rows.gpus.in[target.index()];
      if (topology.host_of(target) != home) entered.insert(topology.host_of(target));
    }
    ++rows.gpus.out[token.source.index()];
    for (const int host : entered) ++rows.hosts.in[static_cast<std::size_t>(host)];
    rows.between_hosts += std::ssize(entered);
    if (!entered.empty()) ++rows.hosts.out[static_cast<std::size_t>(home)];
  }
  return rows;
}

/// Least latencies through the graph; keeps those of the last source, as tokens come
/// rank by rank.
class Latencies {
 public:
  /// With `back` the ways lead to the sources instead.
  Latencies(const Topology& topology, bool back)
      : topology_(topology), links_(topology.vertices().size()) {
    for (const Link& link : topology.links()) {
      const VertexId at = back ? link.to : link.from, next = back ? link.from : link.to;
      links_[at.index()].push_back({link.latency, next});
    }
  }
  /// Per vertex.
  const std::vector<Seconds>& from(GpuId gpu) {
    if (least_.empty() || gpu != source_) search(topology_.vertex_of(gpu), least_);
    source_ = gpu;
    return least_;
  }

 private:
  void search(VertexId start, std::vector<Seconds>& least) const {
    least.assign(links_.size(), Seconds(std::numeric_limits<double>::infinity()));
    least_costs(start.index(), least, [&](std::size_t at, auto&& use) {
      for (const auto& [latency, next] : links_[at]) use(next.index(), latency);
    });
  }

  const Topology& topology_;
  std::vector<std::vector<std::pair<Seconds, VertexId>>> links_;
  GpuId source_;
  std::vector<Seconds> least_;
};

struct LeastRows {
  Ports<std::int64_t> hosts, gpus;
  Ports<Seconds> host_latency, gpu_latency;  // least of the needs that pass the port
  std::int64_t between_hosts = 0;
  Seconds farthest;
};

/// One more row through a port, which the latency of its way allows no earlier.
void add_row(std::int64_t& rows, Seconds& least, Seconds latency) {
  least = rows == 0 ? latency : std::min(least, latency);
  ++rows;
}

LeastRows count_rows(const Topology& topology, const std::vector<TokenNeeds>& needs, bool back) {
  LeastRows rows{Ports<std::int64_t>(topology.host_count()),
                 Ports<std::int64_t>(topology.gpu_count()),
                 Ports<Seconds>(topology.host_count()),
                 Ports<Seconds>(topology.gpu_count()),
                 0,
                 Seconds(0)};
  Latencies latencies(topology, back);
  std::map<std::size_t, Seconds> hosts;  // other hosts with the least latency to a target there
  for (const TokenNeeds& token : needs) {
    const std::vector<Seconds>& to = latencies.from(token.source);
    const int home = topology.host_of(token.source);
    hosts.clear();
    Seconds nearest(std::numeric_limits<double>::infinity()), nearest_outside = nearest;
    for (const GpuId target : token.targets) {
      const Seconds latency = to[topology.vertex_of(target).index()];
      rows.farthest = std::max(rows.farthest, latency);
      nearest = std::min(nearest, latency);
      add_row(rows.gpus.in[target.index()], rows.gpu_latency.in[target.index()], latency);
      const int host = topology.host_of(target);
      if (host == home) continue;
      nearest_outside = std::min(nearest_outside, latency);
      Seconds& least = hosts.try_emplace(static_cast<std::size_t>(host), latency).first->second;
      least = std::min(least, latency);
    }
    for (const auto& [host, latency] : hosts) {
      add_row(rows.hosts.in[host], rows.host_latency.in[host], latency);
    }
    const std::size_t gpu = token.source.index();
    add_row(rows.gpus.out[gpu], rows.gpu_latency.out[gpu], nearest);
    rows.between_hosts += std::ssize(hosts);
    if (hosts.empty()) continue;
    const auto host = static_cast<std::size_t>(home);
    add_row(rows.hosts.out[host], rows.host_latency.out[host], nearest_outside);
  }
  return rows;
}

/// One direction of the ports of all hosts or of all GPUs.
struct Side {
  const std::vector<std::int64_t>& rows;
  const std::vector<Seconds>& latency;
  const std::vector<PortLinks>& links;
  const char* direction;
  const std::vector<std::string>& names;
};

/// Keeps the port that takes longest; the first of equals.
void keep_longest(LowerBound& bound, const Side& side, Bytes row, const Topology& topology) {
  for (std::size_t i = 0; i < side.rows.size(); ++i) {
    if (side.rows[i] == 0) continue;
    const Bytes bytes = row * side.rows[i];
    const BytesPerSecond bandwidth = most_of_port(topology, side.links[i], bytes);
    const Seconds transfer = bytes / bandwidth;
    if (side.latency[i] + transfer <= bound.latency + bound.transfer) continue;
    bound.latency = side.latency[i];
    bound.transfer = transfer;
    bound.port = fmt::format("{} {}", side.direction, side.names[i]);
    bound.bytes = bytes;
    bound.bandwidth = bandwidth;
  }
}

std::vector<std::string> gpu_names(const Topology& topology) {
  std::vector<std::string> names;
  for (int g = 0; g < topology.gpu_count(); ++g) {
    names.push_back(topology.vertices()[topology.vertex_of(GpuId(g)).index()].name);
  }
  return names;
}

/// A host is named by what its GPUs' names begin with ("node0" of "node0.gpu3").
std::vector<std::string> host_names(const Topology& topology) {
  std::vector<std::string> names(static_cast<std::size_t>(topology.host_count()));
  for (int g = topology.gpu_count() - 1; g >= 0; --g) {
    const std::string& gpu = topology.vertices()[topology.vertex_of(GpuId(g)).index()].name;
    const std::size_t dot = gpu.rfind('.');
    names[static_cast<std::size_t>(topology.host_of(GpuId(g)))] =
        dot == std::string::npos ? "the host of " + gpu : gpu.substr(0, dot);
  }
  return names;
}

}  // namespace

void PortBytes::add(const PortBytes& other) {
  add_to(hosts.in, other.hosts.in);
  add_to(hosts.out, other.hosts.out);
  add_to(gpus.in, other.gpus.in);
  add_to(gpus.out, other.gpus.out);
  between_hosts += other.between_hosts;
}

PortBytes least_bytes(const Plan& plan, const Topology& topology) {
  std::map<std::tuple<int, Pass, Stage>, Bytes> rows;  // the least of an exchange's
  for (const Op& op : plan.ops) {
    const bool tokens = op.key.stage == Stage::dispatch || op.key.stage == Stage::combine;
    if (!tokens || op.exchange() == nullptr || op.exchange()->rows.empty()) continue;
    const Bytes row = row_bytes(*op.exchange());
    const auto [least, fresh] = rows.try_emplace({op.key.layer, op.key.pass, op.key.stage}, row);
    if (!fresh) least->second = std::min(least->second, row);
  }
  const auto needs = needs_by_layer(plan);
  PortBytes sum;
  for (const auto& [stage, row] : rows) {
    const auto of_layer = needs.find(std::get<int>(stage));
    if (of_layer == needs.end()) continue;
    PortBytes least = least_rows(topology, of_layer->second);
    if (std::get<Stage>(stage) == Stage::combine) {
      std::swap(least.hosts.in, least.hosts.out);
      std::swap(least.gpus.in, least.gpus.out);
    }
    for (auto* ports : {&least.hosts.in, &least.hosts.out, &least.gpus.in, &least.gpus.out}) {
      for (std::int64_t& port : *ports) port *= row.value;
    }
    least.between_hosts *= row.value;
    sum.add(least);
  }
  return sum;
}

Seconds time_at_best_rate(const PortBytes& bytes, const Topology& topology) {
  const LinksOfPorts links = links_of_ports(topology);
  Seconds longest;
  const auto pass = [&](const std::vector<std::int64_t>& ports, const std::vector<PortLinks>& of) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (ports[i] == 0) continue;
      const Bytes port(ports[i]);
      longest = std::max(longest, port / most_of_port(topology, of[i], port));
    }
  };
  pass(bytes.hosts.in, links.hosts.in);
  pass(bytes.hosts.out, links.hosts.out);
  pass(bytes.gpus.in, links.gpus.in);
  pass(bytes.gpus.out, links.gpus.out);
  return longest;
}

LowerBound lower_bound(const Topology& topology, const std::vector<TokenNeeds>& needs, Bytes row,
                       bool back) {
  LeastRows rows = count_rows(topology, needs, back);
  if (back) {
    std::swap(rows.hosts.in, rows.hosts.out);
    std::swap(rows.gpus.in, rows.gpus.out);
    std::swap(rows.host_latency.in, rows.host_latency.out);
    std::swap(rows.gpu_latency.in, rows.gpu_latency.out);
  }
  LowerBound bound;
  bound.between_hosts = row * rows.between_hosts;
  const std::vector<std::string> hosts = host_names(topology), gpus = gpu_names(topology);
  const LinksOfPorts ports = links_of_ports(topology);
  for (const Side& side : {
           Side{rows.hosts.in, rows.host_latency.in, ports.hosts.in, "into", hosts},
           Side{rows.hosts.out, rows.host_latency.out, ports.hosts.out, "out of", hosts},
           Side{rows.gpus.in, rows.gpu_latency.in, ports.gpus.in, "into", gpus},
           Side{rows.gpus.out, rows.gpu_latency.out, ports.gpus.out, "out of", gpus},
       }) {
    keep_longest(bound, side, row, topology);
  }
  bound.farthest = rows.farthest;
  bound.time = std::max(bound.farthest, bound.latency + bound.transfer);
  return bound;
}

}  // namespace moesim
