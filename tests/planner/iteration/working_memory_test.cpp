// SPDX-License-Identifier: Apache-2.0
// Memory of the block at work and of transfers between stages, against closed forms.
#include "sim/planner/pipeline/pipeline.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

/// Gradients of what goes into the wide side of experts; gated ones have two.
TEST_F(IterationMemoryTest, ExpertsAtWorkHoldGradientsOfTheirInputAndTheirWideSide) {
  for (const int matrices : {2, 3}) {
    MoeModel model = all_chosen(4);
    model.expert_ffn = 2048;
    model.expert_matrices = matrices;
    const MemoryPeak peak = memory(model, options(PipelineKind::one_f_one_b, 1, 1, 2)).peaks[0];
    ASSERT_EQ(peak.block, BlockKind::moe);
    const std::int64_t rows = tokens_of_gpu * 8, inner = (matrices - 1) * 2048;
    const Bytes residual(std::int64_t{tokens_of_gpu} * 1024 * 2);
    EXPECT_EQ(peak.use.of(MemoryPart::working), residual + Bytes(rows * (1024 + inner) * 2))
        << matrices;
  }
}

/// Scores read queries and keys and write values of all heads: here more than any product.
TEST_F(IterationMemoryTest, AttentionAtWorkHoldsGradientsOfItsQueriesKeysAndValues) {
  MoeModel model = all_chosen(4);
  model.expert_ffn = 8;
  model.attention->shape->head_dim = 1024;
  const MemoryPeak peak = memory(model, options(PipelineKind::one_f_one_b, 1, 1, 2)).peaks[0];
  ASSERT_EQ(peak.block, BlockKind::attention);
  const std::int64_t width = (16 + 4) * (1024 + 1024);
  EXPECT_EQ(peak.use.of(MemoryPart::working), Bytes(tokens_of_gpu * (1024 + width) * 2));
}

/// A forward pass sends its output: what it received is kept as the input of its first block.
TEST_F(IterationMemoryTest, ForwardsSendAndBackwardsReceiveToo) {
  const Spec o = options(PipelineKind::interleaved, 4, 2, 8);
  const StepMemory held = memory(all_chosen(8), o);
  ASSERT_EQ(held.peaks[fullest(held.peaks).index()].stage, 0);
  const Pipeline pipeline({PipelineKind::interleaved, 4, 8, 2});
  const Timetable& turns = pipeline.of(0);
  ASSERT_EQ(held.curve.size(), turns.size());
  for (std::size_t t = 0; t < turns.size(); ++t) {
    const StageWork& work = turns[t].work;
    // The first chunk of the first stage has no stage before it.
    const int others = work.kind == WorkKind::forward || work.chunk == 0 ? 1 : 2;
    EXPECT_EQ(held.curve[t].of(MemoryPart::transfers), Bytes(others * tokens_of_gpu * 1024 * 2))
        << t;
  }
}

/// Every microbatch in flight takes as much, of experts forward and backward; what the first stage
/// takes least of are transfers.
TEST_F(IterationMemoryTest, PeaksAreTheFirstOfEqualOnesWithTransfersToBothSides) {
  const StepMemory held = memory(all_chosen(8), options(PipelineKind::one_f_one_b, 4, 1, 8));
  for (int stage = 0; stage < 4; ++stage) {
    const MemoryPeak& peak = held.peaks[static_cast<std::size_t>(2 * stage)];
    EXPECT_EQ(peak.turn, stage == 0 ? 3 : 4 - stage);  // behind as many forward passes
    EXPECT_EQ(peak.work.kind, stage == 0 ? WorkKind::forward : WorkKind::backward);
    const int sides = stage == 0 || stage == 3 ? 1 : 2;
    EXPECT_EQ(peak.use.of(MemoryPart::transfers), Bytes(sides * tokens_of_gpu * 1024 * 2)) << stage;
  }
}

}  // namespace
}  // namespace moesim
