// SPDX-License-Identifier: Apache-2.0
// Counts the rows that must pass each port, and finds the port that needs longest for them.
#include "sim/report/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace moesim {
namespace {

/// Bandwidth or rows of the ports of some hosts or GPUs.
template <class T>
struct Ports {
  std::vector<T> in, out;
  explicit Ports(int count)
      : in(static_cast<std::size_t>(count)), out(static_cast<std::size_t>(count)) {}
};

struct Capacities {
  Ports<BytesPerSecond> hosts, gpus;
};

Capacities capacities_of(const Topology& topology) {
  Capacities result{Ports<BytesPerSecond>(topology.host_count()),
                    Ports<BytesPerSecond>(topology.gpu_count())};
  std::map<VertexId, std::size_t> rank_at;
  for (int g = 0; g < topology.gpu_count(); ++g) {
    rank_at[topology.vertex_of(GpuId(g))] = static_cast<std::size_t>(g);
  }
  for (const Link& link : topology.links()) {
    const int from = topology.vertices()[link.from.index()].host;
    const int to = topology.vertices()[link.to.index()].host;
    if (from != to) {
      if (from >= 0) result.hosts.out[static_cast<std::size_t>(from)] += link.bandwidth;
      if (to >= 0) result.hosts.in[static_cast<std::size_t>(to)] += link.bandwidth;
    }
    if (const auto gpu = rank_at.find(link.from); gpu != rank_at.end()) {
      result.gpus.out[gpu->second] += link.bandwidth;
    }
    if (const auto gpu = rank_at.find(link.to); gpu != rank_at.end()) {
      result.gpus.in[gpu->second] += link.bandwidth;
    }
  }
  return result;
}

struct LeastRows {
  Ports<std::int64_t> hosts, gpus;
  std::int64_t between_hosts = 0;
};

LeastRows count_rows(const Topology& topology, const std::vector<TokenNeeds>& needs) {
  LeastRows rows{Ports<std::int64_t>(topology.host_count()),
                 Ports<std::int64_t>(topology.gpu_count())};
  std::vector<std::size_t> hosts;
  for (const TokenNeeds& token : needs) {
    const int home = topology.host_of(token.source);
    hosts.clear();
    for (const GpuId target : token.targets) {
      ++rows.gpus.in[target.index()];
      const int host = topology.host_of(target);
      if (host != home) hosts.push_back(static_cast<std::size_t>(host));
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    for (const std::size_t host : hosts) ++rows.hosts.in[host];
    ++rows.gpus.out[token.source.index()];
    if (!hosts.empty()) ++rows.hosts.out[static_cast<std::size_t>(home)];
    rows.between_hosts += std::ssize(hosts);
  }
  return rows;
}

/// Keeps the port that takes longest; the first of equals.
void keep_longest(LowerBound& bound, const std::vector<std::int64_t>& rows,
                  const std::vector<BytesPerSecond>& bandwidth, Bytes row, const char* direction,
                  const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == 0) continue;
    const Bytes bytes = row * rows[i];
    const Seconds time = bytes / bandwidth[i];
    if (time <= bound.transfer) continue;
    bound.transfer = time;
    bound.port = fmt::format("{} {}", direction, names[i]);
    bound.bytes = bytes;
    bound.bandwidth = bandwidth[i];
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

std::vector<TokenNeeds> needs_of(const Plan& plan) {
  struct Journey {
    GpuId source;
    std::map<int, GpuId> holder;  // by choice
  };
  std::map<TokenId, Journey> journeys;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || op.stage != Stage::dispatch || op.pass != Pass::forward) {
      continue;
    }
    for (const RowMove& row : op.exchange()->rows) {
      Journey& journey = journeys.try_emplace(row.token, Journey{row.from, {}}).first->second;
      for (Choices left = row.choices; left != 0; left &= left - 1) {
        journey.holder[std::countr_zero(left)] = row.to;
      }
    }
  }
  std::vector<TokenNeeds> needs;
  for (const auto& [token, journey] : journeys) {
    TokenNeeds need{journey.source, {}};
    for (const auto& [choice, gpu] : journey.holder) {
      if (gpu != journey.source) need.targets.push_back(gpu);
    }
    std::sort(need.targets.begin(), need.targets.end());
    need.targets.erase(std::unique(need.targets.begin(), need.targets.end()), need.targets.end());
    if (!need.targets.empty()) needs.push_back(std::move(need));
  }
  return needs;
}

LowerBound lower_bound(const Topology& topology, const std::vector<TokenNeeds>& needs, Bytes row,
                       bool back) {
  const Capacities capacity = capacities_of(topology);
  LeastRows rows = count_rows(topology, needs);
  if (back) {
    std::swap(rows.hosts.in, rows.hosts.out);
    std::swap(rows.gpus.in, rows.gpus.out);
  }
  LowerBound bound;
  bound.between_hosts = row * rows.between_hosts;
  const std::vector<std::string> hosts = host_names(topology), gpus = gpu_names(topology);
  keep_longest(bound, rows.hosts.in, capacity.hosts.in, row, "into", hosts);
  keep_longest(bound, rows.hosts.out, capacity.hosts.out, row, "out of", hosts);
  keep_longest(bound, rows.gpus.in, capacity.gpus.in, row, "into", gpus);
  keep_longest(bound, rows.gpus.out, capacity.gpus.out, row, "out of", gpus);
  return bound;
}

}  // namespace moesim
