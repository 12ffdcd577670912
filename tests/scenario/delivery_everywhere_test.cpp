// SPDX-License-Identifier: Apache-2.0
// Every policy x shipped topology x trace: the plan delivers every token, conserves bytes on every
// link, and keeps every tier's bytes on that tier. Simulated, its critical path is its makespan,
// and no bound is longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/report/lower_bound.h"
#include "sim/scenario/proof.h"
#include "sim/topology/reader.h"
#include "tests/scenario/link_bytes.h"
#include "tests/scenario/time_properties.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

/// The last batch of the smallest repeat that gives every rank at least eight tokens. Cutting a
/// trace takes as long as planning.
const Batch& last_batch(const std::string& name, const RoutingTrace& trace, int ranks) {
  static std::map<std::pair<std::string, int>, Batch> kept;
  const auto known = kept.find({name, ranks});
  if (known != kept.end()) return known->second;
  for (int repeat = 1;; repeat *= 2) {
    try {
      Batches batches = make_batches(trace, {ranks, 8, repeat});
      return kept[{name, ranks}] = std::move(batches.batches.back());
    } catch (const Error&) {
      if (repeat > 4096) throw;
    }
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
  const Batch& batch = last_batch(trace_case.name, *trace, topology.gpu_count());
  PlannerOptions options{ep, layers, !large, true};
  options.batches = {&batch, 1};
  auto planner = make_planner(policy, topology, model, *trace, options);
  if (!planner) GTEST_SKIP() << "the cluster does not suit the policy";
  const auto suitable = plan_step(*planner, batch, 0);
  if (!suitable) GTEST_SKIP() << "the trace does not suit the policy";
  const PlannedStep& planned = *suitable;
  prove_delivery(planned);
  const PricedPlan priced(planned.plan, topology);
  expect_links_carry(priced, topology);
  if (large) return;
  const GpuModels gpus = shipped_gpus(topology);
  const Timeline timeline = run_at_port(priced, gpus);
  expect_path_is_the_makespan(priced, timeline, gpus);
  expect_within_bounds(priced, timeline, gpus, {});
  const PortBytes least = least_bytes(planned.plan, topology);
  EXPECT_LE(time_at_best_rate(least, topology).value, timeline.makespan.value * (1 + 1e-9));
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
