// SPDX-License-Identifier: Apache-2.0
// A step of every policy of scenarios/gpu.yaml by the CUDA code, emulated, with all ranks in this
// process.
#include <gtest/gtest.h>

#include <cstdlib>

#include "realhw/cuda/cuda_device.h"
#include "realhw/host/local_run.h"
#include "realhw/measure/measure.h"
#include "realhw/measure/planned_source.h"
#include "sim/scenario/inputs.h"
#include "tests/realhw/emulated/emulated.h"

namespace moesim {
namespace {

/// Drops scratch and host work, which only takes time.
RankProgram without_scratch(RankProgram program) {
  const auto is_idle = [](const Call& call) {
    return std::holds_alternative<Scratch>(call) || std::holds_alternative<HostWork>(call);
  };
  for (RankStep& step : program.steps) {
    std::erase_if(step.before, is_idle);
    std::erase_if(step.after, is_idle);
  }
  return program;
}

Comparison run_on_gpus(const RealStep& step, RowFormat matrices, CudaOptions::Gemm gemm) {
  std::vector<std::unique_ptr<LocalRank>> ranks;
  for (int r = 0; r < step.plan.gpus; ++r) {
    ranks.push_back(std::make_unique<LocalRank>(
        step, without_scratch(compile(step, GpuId(r), {matrices})), make_cuda_device(0, {gemm})));
  }
  run_locally(ranks);
  Comparison sum;
  for (auto& rank : ranks) sum += compare(step, rank->program, rank->device);
  return sum;
}

class EmulatedPolicies : public testing::TestWithParam<std::pair<RowFormat, CudaOptions::Gemm>> {};

TEST_P(EmulatedPolicies, ComputeWhatTheRoutingSays) {
  const auto [matrices, gemm] = GetParam();
  const Scenario scenario = read_scenario(MOESIM_ROOT "/scenarios/gpu.yaml",
                                          {{"steps", "0:1", ""}, {"tokens_per_rank", "4", ""}});
  const auto source = planned_source(scenario, open_inputs(scenario));
  EXPECT_EQ(source->policies().size(), 10u);
  emulated::watch_every(std::getenv("MOESIM_EMULATED_ALL") == nullptr ? 31 : 1);
  for (std::size_t policy = 0; policy < source->policies().size(); ++policy) {
    SCOPED_TRACE(source->policies()[policy]);
    source->begin(policy);
    const auto step = source->next();
    ASSERT_TRUE(step);
    const Comparison compared = run_on_gpus(real_step(*step, source->origin()), matrices, gemm);
    EXPECT_GT(compared.outputs, 0);
    EXPECT_GT(compared.weight_gradients, 0);
    EXPECT_EQ(compared.wrong(), 0);
  }
  emulated::watch_every(1);
}

INSTANTIATE_TEST_SUITE_P(
    Types, EmulatedPolicies,
    testing::Values(std::pair{RowFormat::float32, CudaOptions::Gemm::automatic},
                    std::pair{RowFormat::bfloat16, CudaOptions::Gemm::one_by_one}));

}  // namespace
}  // namespace moesim
