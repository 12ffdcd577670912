// SPDX-License-Identifier: Apache-2.0
#include "sim/report/perfect_dedup.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/report/sums.h"
#include "sim/report/token_needs.h"

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

}  // namespace moesim
