// SPDX-License-Identifier: Apache-2.0
// Hardware refuses by name what only one kernel could do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/scenario/can_execute.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

TEST(FusedLayers, AreRefusedByHardware) {
  Plan plan{"t", 1, {}};
  Op fc1{"fc1-wave-1",
         {.kind = OpKind::fc1, .stage = Stage::experts, .layer = 3},
         Stream::compute,
         Group::first(1),
         {},
         {}};
  GroupedGemm gemm{{8}, 16, 16, DataType::fp32};
  fc1.work = Kernels(Kernel(gemm));
  plan.add(fc1);
  EXPECT_NO_THROW(check_can_execute(plan));
  gemm.wave = Wave{{8}, 8, 1, 1, DataType::fp32, true};
  plan.ops[0].work = Kernels(Kernel(gemm));
  try {
    check_can_execute(plan);
    ADD_FAILURE();
  } catch (const Unsuitable& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("hardware cannot execute fused kernels and whole tiles"));
    EXPECT_THAT(e.what(), testing::HasSubstr("'fc1-wave-1' of layer 3"));
  }
}

TEST(ChosenRanks, OfSharedExpertsAreRefusedByHardware) {
  LayerDecision decision(Assignment(contiguous_placement(4, 2, 2), 2));
  EXPECT_NO_THROW(check_can_execute(decision));
  decision.shared_routed = true;
  EXPECT_THAT(test::error_of([&] { check_can_execute(decision); }),
              testing::HasSubstr("hardware cannot execute shared experts on ranks"));
}

TEST(StaticShapes, AreRefusedByHardware) {
  MoeModel model = read_moe_model(data_file("models/moe", "olmoe"));
  model.activations = model.weights = DataType::fp32;
  Scenario scenario;
  scenario.gradient_bytes = 4;
  scenario.iteration.emplace();
  const auto error = [&] { return test::error_of([&] { check_can_execute(scenario, model); }); };
  EXPECT_EQ(error(), "");
  model.hash_layers = 1;
  EXPECT_THAT(error(), testing::HasSubstr("hardware cannot execute layers routed by token ids"));
  scenario.iteration->stash.emplace();
  EXPECT_THAT(error(), testing::HasSubstr("hardware cannot execute a paged stash"));
}

}  // namespace
}  // namespace moesim
