// SPDX-License-Identifier: Apache-2.0
// On 32 GPUs the three fidelities agree within 2 % over every trace and policy: with all peers in
// flight, max-min sharing ends when the busiest link does.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/analytic/analytic_backend.h"
#include "sim/base/data_files.h"
#include "sim/engine/simgrid_backend.h"
#include "sim/policy/step_plan.h"
#include "sim/topology/reader.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

class FidelityAgreement : public testing::TestWithParam<ScenarioCase> {};

TEST_P(FidelityAgreement, MakespansAgreeWithinTwoPercent) {
  const auto& [topology_name, policy, trace_case] = GetParam();
  const auto trace = open_trace(trace_case.name);
  if (!trace) GTEST_SKIP() << "the public traces are not at hand";
  const TopologyFile file = read_topology(data_file("topologies", topology_name));
  const Topology& topology = file.topology;
  ASSERT_EQ(topology.gpu_count(), 32);
  GpuModels gpus;
  for (int g = 0; g < 32; ++g) {
    gpus.push_back(std::make_shared<const GpuModel>(
        read_gpu_model(data_file("models/gpu", topology.gpu_model(GpuId(g))))));
  }
  const MoeModel model = read_moe_model(data_file("models/moe", trace_case.model));
  StepPlanner planner(read_system(data_file("models/system", policy)), topology, model, *trace,
                      {16, {0, 3}, true, false});
  const Batches batches = make_batches(*trace, {32, std::nullopt, 1});
  for (std::size_t step : {std::size_t{0}, batches.batches.size() - 1}) {
    const StepPlan planned = planner.plan(batches.batches[step], static_cast<int>(step));
    const double port = make_simgrid_backend(topology, gpus)->run(planned.plan).makespan.value;
    const double flow =
        make_simgrid_backend(topology, gpus, {.fidelity = SimgridOptions::Fidelity::flow})
            ->run(planned.plan)
            .makespan.value;
    const double analytic = make_analytic_backend(topology, gpus)->run(planned.plan).makespan.value;
    EXPECT_NEAR(port / flow, 1, 0.02);
    EXPECT_NEAR(analytic / flow, 1, 0.02);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FidelityAgreement,
                         testing::ValuesIn(scenario_cases({"hiermoe-a6000", "laer-a100",
                                                           "h100-rail", "hybridep-l"},
                                                          data_names("models/system"))),
                         [](const auto& one) { return one.param.str(); });

}  // namespace
}  // namespace moesim
