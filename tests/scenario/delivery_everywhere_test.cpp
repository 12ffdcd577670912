// SPDX-License-Identifier: Apache-2.0
// Every policy x shipped topology x trace: the plan delivers every token, conserves bytes on every
// link, and keeps every tier's bytes on that tier. Simulated, its critical path is its makespan,
// and no bound is longer.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/report/perfect_dedup.h"
#include "sim/scenario/proof.h"
#include "sim/topology/reader.h"
#include "tests/scenario/time_properties.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

/// The smallest repeat that gives every rank at least eight tokens.
Batches enough_batches(const RoutingTrace& trace, int ranks) {
  for (int repeat = 1;; repeat *= 2) {
    try {
      return make_batches(trace, {ranks, 8, repeat});
    } catch (const Error&) {
      if (repeat > 4096) throw;
    }
  }
}

/// Bytes that enter and leave every vertex but the GPUs are the same.
void expect_conserved(const Topology& topology, const LinkLoads& loads) {
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
void expect_matrix_on_links(const Topology& topology, const GroupTraffic& traffic,
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
void expect_tiers(const Topology& topology, const GroupTraffic& traffic, const LinkLoads& loads) {
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

std::int64_t token_bytes_between_hosts(const Plan& plan, const Topology& topology) {
  std::int64_t sum = 0;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || !carries_tokens(op.stream)) continue;
    op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (topology.host_of(from) != topology.host_of(to)) sum += bytes.value;
    });
  }
  return sum;
}

class DeliveryEverywhere : public testing::TestWithParam<ScenarioCase> {};

TEST_P(DeliveryEverywhere, TokensArriveAndBytesAreConserved) {
  const auto& [topology_name, policy, trace_case] = GetParam();
  const auto& trace = open_trace(trace_case.name);
  if (!trace) GTEST_SKIP() << "the public traces are not at hand";
  const Topology& topology = shipped_topology(topology_name);
  const MoeModel model = read_moe_model(data_file("models/moe", trace_case.model));
  const int ep = default_ep(topology.gpu_count(), trace->info().experts);
  // The largest clusters stand for themselves: one layer, forward, is enough there.
  const bool large = topology.gpu_count() > 256;
  const int last = static_cast<int>(trace->info().layers.size()) - 1;
  const std::vector<int> layers = large ? std::vector<int>{last} : std::vector<int>{0, last};
  const Batches batches = enough_batches(*trace, topology.gpu_count());
  PlannerOptions options{ep, layers, !large, true};
  options.batches = {&batches.batches.back(), 1};
  auto planner = make_planner(policy, topology, model, *trace, options);
  if (!planner) GTEST_SKIP() << "the cluster does not suit the policy";
  const StepPlan planned = planner->plan(batches.batches.back(), 0);
  prove_delivery(planned, batches.batches.back());
  const PricedPlan priced(planned.plan, topology);
  for (OpId id(0); id.index() < planned.plan.ops.size(); ++id.value) {
    if (!priced[id]) continue;
    const GroupTraffic traffic = planned.plan[id].traffic();
    const LinkLoads& loads = priced[id]->loads;
    expect_conserved(topology, loads);
    expect_matrix_on_links(topology, traffic, loads);
    expect_tiers(topology, traffic, loads);
  }
  if (large) return;
  const GpuModels gpus = shipped_gpus(topology);
  const Timeline timeline = run_at_port(priced, gpus);
  expect_path_is_the_makespan(priced, timeline, gpus);
  expect_within_bounds(priced, timeline, gpus, {});
  const PortBytes least = least_bytes(planned.plan, topology);
  EXPECT_LE(time_at_full_rate(least, topology).value, timeline.makespan.value * (1 + 1e-9));
  EXPECT_LE(least.between_hosts, token_bytes_between_hosts(planned.plan, topology));
}

/// All that are shipped, three of different kinds first.
std::vector<std::string> topologies() {
  std::vector<std::string> names = {"hiermoe-a6000", "h100-rail", "laer-a100"};
  for (const std::string& name : data_names("topologies")) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, DeliveryEverywhere,
                         testing::ValuesIn(scenario_cases(topologies(),
                                                          data_names("models/system"))),
                         [](const auto& one) { return one.param.str(); });

}  // namespace
}  // namespace moesim
