// SPDX-License-Identifier: Apache-2.0
// Steps on the transports that policies name: slower links and start-ups at every fidelity alike.
#include "sim/analytic/analytic_backend.h"
#include "sim/engine/flow_backend.h"
#include "sim/transport/reader.h"
#include "tests/scenario/time_properties.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

Transports own_transports(const std::string& policy) {
  const SystemSpec system = read_system(data_file("models/system", policy));
  return find_transports(system.transport);
}

TEST(OwnTransports, EveryShippedPolicyHasOneOrSaysThatItsLinksAreIdeal) {
  for (const std::string& policy : data_names("models/system")) {
    const bool ideal = read_system(data_file("models/system", policy)).transport == "ideal";
    EXPECT_EQ(own_transports(policy).tokens == nullptr, ideal) << policy;
  }
}

class OwnTransport : public testing::TestWithParam<std::string> {};

TEST_P(OwnTransport, FidelitiesAgreeAndNoBoundIsLonger) {
  const auto& trace = open_trace("tiny-moe-train");
  const Topology& topology = shipped_topology("h100-rail");
  const GpuModels gpus = shipped_gpus(topology);
  const MoeModel model = read_moe_model(data_file("models/moe", "gpt-oss-20b"));
  const Batches batches = make_batches(*trace, {32, std::nullopt, 1});
  PlannerOptions options{16, {1}, true, false};
  options.accumulate = 0;
  options.batches = {&batches.batches.back(), 1};
  auto planner = make_planner(GetParam(), topology, model, *trace, options);
  ASSERT_TRUE(planner);
  Plan plan = planner->plan(batches.batches.back(), 0).plan;
  const Seconds ideal = run_at_port(PricedPlan(plan, topology), gpus).makespan;
  plan.transports = own_transports(GetParam());
  const PricedPlan priced(plan, topology);
  const Timeline at_port = run_at_port(priced, gpus);
  expect_path_is_the_makespan(priced, at_port, gpus);
  expect_within_bounds(priced, at_port, gpus, {});
  const Timeline by_flow = make_flow_backend(topology, gpus, {.together = true})->run(priced);
  expect_within_bounds(priced, by_flow, gpus, {.together = false}, 1e-3);
  EXPECT_NEAR(at_port.makespan / by_flow.makespan, 1, 0.12);
  const Timeline analytic = make_analytic_backend(topology, gpus)->run(priced);
  EXPECT_NEAR(analytic.makespan / by_flow.makespan, 1, 0.12);
  EXPECT_NE(at_port.makespan, ideal);
}

INSTANTIATE_TEST_SUITE_P(SomePolicies, OwnTransport,
                         testing::Values("alltoall", "megatron", "hiermoe-hd2", "schemoe",
                                         "deepep-normal", "deepep-low-latency"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moesim
