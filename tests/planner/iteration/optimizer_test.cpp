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

/// What the GPUs of an iteration update, by the bytes that Adam writes.
std::int64_t updated_parameters(const Plan& plan, std::int64_t bytes) {
  std::int64_t sum = 0;
  for (const Op& op : plan.ops) {
    if (op.key.kind != OpKind::optimizer) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      sum += std::get<MemoryBound>(op.kernels()->of(m)).written.value / bytes;
    }
  }
  return sum;
}

// Copies are there while a layer computes, or have weights only: who has the state updates.
TEST_F(IterationMemoryTest, UpdatesOnlyWhatHasStateWhereExpertsHaveCopies) {
  const MoeModel model = test::whole(3);
  const auto trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
  const auto updated = [&](const std::string& policy, int ep, int zero, int optimizer) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
    o.spec.parallel.ep = ep;
    o.spec.zero = zero;
    o.state.optimizer = optimizer;
    Planner planner(test::policy(policy), topology_, model, trace, o);
    return updated_parameters(planner.plan(0).plan, optimizer + 2);
  };
  for (const int optimizer : {12, 0}) {
    for (const int zero : {0, 1}) {
      const std::int64_t expected = updated("alltoall", 8, zero, optimizer);
      for (const char* policy : {"hybridep", "hybridep-exact", "eplb", "moonep",
                                 "ultraep-interpretation", "lplb", "fsdp-ep"}) {
        EXPECT_EQ(updated(policy, 8, zero, optimizer), expected) << policy << " zero " << zero;
      }
    }
  }
  for (const int ep : {4, 2}) {
    EXPECT_NEAR(static_cast<double>(updated("fsdp-ep", ep, 1, 12)),
                static_cast<double>(updated("alltoall", ep, 1, 12)), 64)
        << ep;
  }
}

// The mirrored stages of DualPipe share what ZeRO divides: memory and update agree.
TEST_F(IterationMemoryTest, HoldsTheStateThatItUpdatesInMirroredStages) {
  const MoeModel model = test::whole(4);
  const auto trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::muon}) {
    for (const char* policy : {"alltoall", "fsdp-ep"}) {
      if (kind == OptimizerKind::muon && policy == std::string("fsdp-ep")) continue;
      Spec o = options(PipelineKind::dualpipe, 4, 1, 8);
      o.spec.overlap.all_to_all = true;
      o.spec.parallel.ep = 2;
      o.spec.zero = 1;
      o.spec.optimizer = kind;
      o.state.optimizer = kind == OptimizerKind::muon ? 8 : 12;
      Planner planner(test::policy(policy), topology_, model, trace, o);
      const PlannedStep step = planner.plan(0);
      std::int64_t held = 0, alone = 0;
      for (const MemoryPeak& peak : step.memory.peaks) {
        held += peak.use.of(MemoryPart::optimizer).value;
      }
      o.spec.zero = 0;
      Planner whole(test::policy(policy), topology_, model, trace, o);
      for (const MemoryPeak& peak : whole.plan(0).memory.peaks) {
        alone += peak.use.of(MemoryPart::optimizer).value;
      }
      // Each part of the model is on four GPUs: two of each mirrored stage; experts on two.
      EXPECT_LE(held, alone / 2 + 4096) << policy;
      if (kind == OptimizerKind::adam) {
        EXPECT_NEAR(static_cast<double>(held),
                    12.0 * static_cast<double>(updated_parameters(step.plan, 14)), 4096)
            << policy;
      }
    }
  }
}

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
