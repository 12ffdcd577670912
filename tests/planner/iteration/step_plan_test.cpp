// SPDX-License-Identifier: Apache-2.0
// An iteration with one stage, one microbatch and no update is the step plan. What its precision
// adds to kernels, by hand.
#include <gtest/gtest.h>

#include "sim/planner/iteration/planner.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

class SameAsStep : public testing::TestWithParam<const char*> {};

TEST_P(SameAsStep, OpForOp) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::tiny();
  const std::int64_t sequence = 256;
  const RoutingTrace trace = test::tokens_for(model, 16 * sequence, sequence);
  const SystemSpec system = test::policy(GetParam());

  PlannerOptions of_step;
  of_step.ep = 16;
  of_step.layers = {0, 1, 2, 3};
  of_step.accumulate = 0;
  const Batches batches = make_batches(trace, {16, sequence, 1});
  of_step.batches = batches.batches;
  Planner steps(system, topology, model, trace, of_step);
  const PlannedStep step = steps.plan(batches.batches[0], 0);

  Spec options;
  options.spec.parallel.ep = 16;
  options.spec.global_batch = 16;
  options.spec.sequence = static_cast<int>(sequence);
  options.optimizer = false;
  Planner iterations(system, topology, model, trace, options);
  const PlannedStep iteration = iterations.plan(0);

  ASSERT_EQ(step.plan.ops.size(), iteration.plan.ops.size());
  for (std::size_t i = 0; i < step.plan.ops.size(); ++i) {
    ASSERT_TRUE(step.plan.ops[i] == iteration.plan.ops[i]) << step.plan.ops[i].label;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, SameAsStep,
                         testing::Values("alltoall", "dedup", "hiermoe-hd2", "deepep-normal",
                                         "laer", "fastermoe", "hybridep-exact", "eplb"));

TEST(PrecisionTraffic, ReadsAnElementAndWritesItInTwoLayoutsWithTheirScales) {
  const auto expect = [](const TrainingTraffic& t, double bytes, int casts, int scales,
                         bool software) {
    EXPECT_DOUBLE_EQ(t.per_cast, bytes);
    EXPECT_EQ(t.cast_kernels, casts);
    EXPECT_EQ(t.scale_kernels, scales);
    EXPECT_EQ(t.of_software, software);
  };
  expect(training_traffic(TrainingPrecision::bf16, 4), 0, 0, 0, true);
  expect(training_traffic(TrainingPrecision::fp8, 4), 6, 4, 0, true);  // 2 more for the maximum
  expect(training_traffic(TrainingPrecision::fp8_blockwise, 4), 4.0625, 1, 0, true);
  expect(training_traffic(TrainingPrecision::mxfp8, 4), 4.0625, 1, 2, true);
  expect(training_traffic(TrainingPrecision::nvfp4, 4), 5.125, 2, 2, true);
  expect(serving_traffic(DataType::fp8), 3.03125, 0, 1, false);
  expect(serving_traffic(DataType::fp4), 2.5625, 0, 1, false);
  expect(serving_traffic(DataType::bf16), 0, 0, 0, false);
  EXPECT_EQ(training_traffic(TrainingPrecision::fp8, 4).per_weight, 8);  // read and written
  EXPECT_EQ(training_traffic(TrainingPrecision::bf16, 2).per_weight, 4);
  EXPECT_EQ(serving_traffic(DataType::fp8).per_weight, 0);
  EXPECT_EQ(serving_traffic(DataType::fp4).per_weight, 0);
}

}  // namespace
}  // namespace moesim
