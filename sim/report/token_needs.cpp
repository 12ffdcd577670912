// SPDX-License-Identifier: Apache-2.0
#include "sim/report/token_needs.h"

#include <array>
#include <bit>
#include <map>
#include <utility>

#include "sim/base/ordering.h"
#include "sim/topology/bandwidth_table.h"

namespace moesim {
namespace {

/// Where the choices of a layer's tokens end, row by row.
class Journeys {
 public:
  void add(const RowMove& row) {
    const std::size_t token = row.token.index();
    if (token >= of_token_.size()) of_token_.resize(token + 1);
    Journey& journey = of_token_[token];
    if (journey.ended == 0) journey.source = row.from;
    journey.ended |= row.choices;
    for (Choices left = row.choices; left != 0; left &= left - 1) {
      journey.holder[static_cast<std::size_t>(std::countr_zero(left))] = row.to;
    }
  }
  std::vector<TokenNeeds> needs() const {
    std::vector<TokenNeeds> needs;
    for (const Journey& journey : of_token_) {
      TokenNeeds need{journey.source, {}};
      for (Choices left = journey.ended; left != 0; left &= left - 1) {
        const GpuId holder = journey.holder[static_cast<std::size_t>(std::countr_zero(left))];
        if (holder != journey.source) need.targets.push_back(holder);
      }
      if (need.targets.empty()) continue;
      sort_once(need.targets);
      needs.push_back(std::move(need));
    }
    return needs;
  }

 private:
  struct Journey {
    GpuId source;
    Choices ended = 0;  // that rows have brought somewhere
    std::array<GpuId, max_top_k> holder;
  };
  std::vector<Journey> of_token_;  // [token] numbered from 0 on in a plan
};

}  // namespace

LinksOfPorts links_of_ports(const Topology& topology) {
  LinksOfPorts result{Ports<PortLinks>(topology.host_count()),
                      Ports<PortLinks>(topology.gpu_count())};
  std::map<VertexId, std::size_t> rank_at;
  std::map<int, int> own;  // hosts of the cluster that GPUs here are of, by numbers of their own
  for (int g = 0; g < topology.gpu_count(); ++g) {
    const VertexId vertex = topology.vertex_of(GpuId(g));
    rank_at[vertex] = static_cast<std::size_t>(g);
    own[topology.vertices()[vertex.index()].host] = topology.host_of(GpuId(g));
  }
  const auto host_of = [&](VertexId vertex) {
    const auto host = own.find(topology.vertices()[vertex.index()].host);
    return host == own.end() ? -1 : host->second;
  };
  for (std::size_t l = 0; l < topology.links().size(); ++l) {
    const Link& link = topology.links()[l];
    const LinkId id(static_cast<int>(l));
    const int from = host_of(link.from), to = host_of(link.to);
    if (from != to) {
      if (from >= 0) result.hosts.out[static_cast<std::size_t>(from)].push_back(id);
      if (to >= 0) result.hosts.in[static_cast<std::size_t>(to)].push_back(id);
    }
    if (const auto gpu = rank_at.find(link.from); gpu != rank_at.end()) {
      result.gpus.out[gpu->second].push_back(id);
    }
    if (const auto gpu = rank_at.find(link.to); gpu != rank_at.end()) {
      result.gpus.in[gpu->second].push_back(id);
    }
  }
  return result;
}

BytesPerSecond most_of_port(const Topology& topology, const PortLinks& links, Bytes bytes) {
  BytesPerSecond sum;
  for (const LinkId id : links) {
    const Link& link = topology.links()[id.index()];
    sum += link.table ? link.table->most_up_to(bytes) : link.bandwidth;
  }
  return sum;
}

std::map<int, std::vector<TokenNeeds>> needs_by_layer(const Plan& plan) {
  std::map<int, Journeys> layers;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || op.key.stage != Stage::dispatch ||
        op.key.pass != Pass::forward) {
      continue;
    }
    Journeys& journeys = layers[op.key.layer];
    for (const RowMove& row : op.exchange()->rows) {
      if (row.choices != 0) journeys.add(row);  // else nobody needs it
    }
  }
  std::map<int, std::vector<TokenNeeds>> needs;
  for (const auto& [layer, journeys] : layers) {
    auto of_layer = journeys.needs();
    if (!of_layer.empty()) needs[layer] = std::move(of_layer);
  }
  return needs;
}

std::vector<TokenNeeds> needs_of(const Plan& plan) {
  auto layers = needs_by_layer(plan);
  return layers.empty() ? std::vector<TokenNeeds>() : std::move(layers.begin()->second);
}

Bytes row_bytes(const Exchange& exchange) {
  if (exchange.padded) return exchange.traffic.unit();
  return Bytes(exchange.traffic.total().value / std::ssize(exchange.rows));
}

}  // namespace moesim
