// SPDX-License-Identifier: Apache-2.0
// What an update with Adam or Muon reads and writes, by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

struct UpdateCase {
  std::string name;
  int gradient, optimizer, taken;  // bytes per parameter
  DataType weights;
  std::int64_t reads, writes;
};

void PrintTo(const UpdateCase& c, std::ostream* out) { *out << c.name; }

/// The first kernel of the update on the first GPU.
MemoryBound update_of(const Topology& topology, const MoeModel& model, const Spec& spec) {
  const auto trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
  Planner planner(test::policy("alltoall"), topology, model, trace, spec);
  const Plan plan = planner.plan(0).plan;
  const auto op =
      std::ranges::find(plan.ops, OpKind::optimizer, [](const Op& each) { return each.key.kind; });
  return std::get<MemoryBound>(op->kernels()->of(0));
}

class UpdateBytes : public IterationMemoryTest, public testing::WithParamInterface<UpdateCase> {
 protected:
  Spec spec() const {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
    o.spec.zero = 0;
    o.state = {GetParam().gradient, GetParam().optimizer};
    o.spec.update_bytes = GetParam().taken;
    return o;
  }
  MoeModel model() const {
    MoeModel model = all_chosen(2);
    model.weights = GetParam().weights;
    return model;
  }
};

TEST_P(UpdateBytes, FollowGradientsAndState) {
  const auto state = memory(model(), spec()).peaks[0].use.of(MemoryPart::optimizer);
  const std::int64_t parameters = state.value / GetParam().optimizer;
  const MemoryBound kernel = update_of(topology_, model(), spec());
  EXPECT_EQ(kernel.read, Bytes(parameters * GetParam().reads));
  EXPECT_EQ(kernel.written, Bytes(parameters * GetParam().writes));
}

INSTANTIATE_TEST_SUITE_P(
    States, UpdateBytes,
    testing::Values(UpdateCase{"megatron_core", 4, 12, 0, DataType::bf16, 16, 14},
                    UpdateCase{"bf16_gradients", 2, 12, 0, DataType::bf16, 14, 14},
                    UpdateCase{"bf16_gradients_copied", 2, 12, 4, DataType::bf16, 18, 18},
                    UpdateCase{"fp32_weights", 4, 8, 0, DataType::fp32, 16, 12},
                    UpdateCase{"fp32_weights_with_a_copy", 4, 12, 0, DataType::fp32, 16, 16},
                    UpdateCase{"bf16_moments", 4, 8, 0, DataType::bf16, 12, 10},
                    UpdateCase{"all_in_bf16", 2, 4, 0, DataType::bf16, 8, 6}),
    [](const auto& each) { return each.param.name; });

TEST_F(IterationMemoryTest, MuonMovesItsMomentumAndOrthogonalizesItInBf16) {
  Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
  o.spec.zero = 0;
  const MoeModel model = all_chosen(2);
  const MemoryBound adam = update_of(topology_, model, o);
  o.spec.optimizer = OptimizerKind::muon;
  o.state.optimizer = 8;
  const MemoryBound muon = update_of(topology_, model, o);
  // Matrices: a moment of 4 bytes less in both directions, their momentum in bf16 more.
  const std::int64_t matrices = 2 * (1024 * (1536 + 1024) + 1024 * (1024 + 512));
  EXPECT_EQ(adam.read - muon.read, Bytes(2 * matrices));
  EXPECT_EQ(adam.written - muon.written, Bytes(2 * matrices));
}

}  // namespace
}  // namespace moesim
