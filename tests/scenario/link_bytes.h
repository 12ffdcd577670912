// SPDX-License-Identifier: Apache-2.0
// What the links of a topology carry is what a plan's exchanges say, no byte more or less.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/plan/priced.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Bytes that enter and leave every vertex but the GPUs are the same.
inline void expect_conserved(const Topology& topology, const LinkLoads& loads) {
  std::vector<std::int64_t> balance(topology.vertices().size());
  for (const auto& [link, bytes, time, first, part] : loads.uses) {
    balance[topology.links()[link.index()].from.index()] -= bytes.value;
    balance[topology.links()[link.index()].to.index()] += bytes.value;
  }
  for (std::size_t v = 0; v < balance.size(); ++v) {
    if (topology.vertices()[v].kind != VertexKind::gpu) {
      ASSERT_EQ(balance[v], 0) << topology.vertices()[v].name;
    }
  }
}

/// What every GPU sends and receives net of what passes through it is its row and column.
inline void expect_matrix_on_links(const Topology& topology, const GroupTraffic& traffic,
                                   const LinkLoads& loads) {
  std::vector<std::int64_t> net(static_cast<std::size_t>(topology.gpu_count()));
  std::vector<int> gpu_at(topology.vertices().size(), -1);
  int gpu = 0;
  for (std::size_t v = 0; v < topology.vertices().size(); ++v) {
    if (topology.vertices()[v].kind == VertexKind::gpu) gpu_at[v] = gpu++;
  }
  for (const LinkUse& use : loads.uses) {
    const Link& link = topology.links()[use.link.index()];
    if (const int to = gpu_at[link.to.index()]; to >= 0)
      net[static_cast<std::size_t>(to)] += use.bytes.value;
    if (const int from = gpu_at[link.from.index()]; from >= 0)
      net[static_cast<std::size_t>(from)] -= use.bytes.value;
  }
  traffic.for_each([&](GpuId from, GpuId to, Bytes bytes) {
    net[from.index()] += bytes.value;
    net[to.index()] -= bytes.value;
  });
  EXPECT_EQ(std::count(net.begin(), net.end(), 0), static_cast<std::ptrdiff_t>(net.size()));
}

/// Traffic of one host stays on its tier; traffic between hosts crosses the fabric at least once.
inline void expect_tiers(const Topology& topology, const GroupTraffic& traffic,
                         const LinkLoads& loads) {
  std::int64_t between_hosts = 0;
  traffic.for_each([&](GpuId from, GpuId to, Bytes bytes) {
    if (topology.host_of(from) != topology.host_of(to)) between_hosts += bytes.value;
  });
  std::int64_t outer = 0;
  for (const LinkUse& use : loads.uses) {
    const auto link_class = static_cast<std::size_t>(topology.links()[use.link.index()].link_class);
    if (topology.classes()[link_class].tier != Tier::host) outer += use.bytes.value;
  }
  EXPECT_GE(outer, between_hosts);
  if (between_hosts == 0) {
    EXPECT_EQ(outer, 0);
  }
}

/// All of these, for every exchange of a plan.
inline void expect_links_carry(const PricedPlan& priced, const Topology& topology) {
  const Plan& plan = priced.plan();
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    if (!priced[id]) continue;
    const GroupTraffic traffic = plan[id].traffic();
    const LinkLoads& loads = priced[id]->loads;
    expect_conserved(topology, loads);
    expect_matrix_on_links(topology, traffic, loads);
    expect_tiers(topology, traffic, loads);
  }
}

}  // namespace moesim
