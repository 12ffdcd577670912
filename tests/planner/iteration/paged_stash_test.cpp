// SPDX-License-Identifier: Apache-2.0
// Memory of iterations whose experts have buffers of one shape and a paged stash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

class PagedStashMemory : public IterationMemoryTest {
 protected:
  static constexpr std::int64_t rows = tokens_of_gpu * 8;  // of a GPU in a layer
  Spec with(const PagedStash& stash, int microbatches = 4) const {
    Spec o = options(PipelineKind::one_f_one_b, 2, 1, microbatches);
    o.spec.stash = stash;
    return o;
  }
  std::string error(const MoeModel& model, const PagedStash& stash) const {
    try {
      memory(model, with(stash));
      return "";
    } catch (const Unsuitable& e) {
      return e.what();
    }
  }
};

TEST_F(PagedStashMemory, IsThatOfTheMeanRowsTimesItsFactor) {
  const MoeModel model = all_chosen(8);
  const Bytes row = kept_expert_activations(model, 1, 1, DataType::bf16, {});
  const BlockShard shard{tokens_of_gpu, (tokens_of_gpu + 1) / 2};
  const Bytes dense = kept_activations(model, 0, BlockKind::attention, shard, {}) +
                      kept_activations(model, 0, BlockKind::moe, shard, {});
  // Stage 0 keeps 4 layers of 2 microbatches: 32768 rows, and a tenth more is 36044.8.
  EXPECT_EQ(activations(memory(model, with({1.5, 1.1, 64})), 0), dense * 8 + row * 36096);
  EXPECT_EQ(activations(memory(model, with({1.5, 1, 64})), 0), dense * 8 + row * (8 * rows));
}

TEST_F(PagedStashMemory, AddsTheBufferOfOneLayerAtWork) {
  const MoeModel model = all_chosen(8);
  const Bytes row = kept_expert_activations(model, 1, 1, DataType::bf16, {});
  const auto working = [&](double rank_capacity) {
    return memory(model, with({rank_capacity, 1, 64})).peaks[0].use.of(MemoryPart::working);
  };
  EXPECT_EQ(working(3) + working(2) * -1, row * rows);
}

/// Half of what the gate chose is dropped: buffers are as large as before.
TEST_F(PagedStashMemory, CountsWhatTheGateChoseAndNotWhatACapacityLeaves) {
  const MoeModel model = all_chosen(8);
  const Bytes row = kept_expert_activations(model, 1, 1, DataType::bf16, {});
  const SystemSpec drops =
      read_system(data_file("models/system", "alltoall"),
                  {parse_override("routing={kind: rank-capacity, factor: 0.5}")});
  const RoutingTrace trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
  const auto working = [&](double rank_capacity) {
    Planner planner(drops, topology_, model, trace, with({rank_capacity, 1, 64}));
    return planner.plan(0).memory.peaks[0].use.of(MemoryPart::working);
  };
  EXPECT_EQ(working(3) + working(2) * -1, row * rows);
}

TEST_F(PagedStashMemory, ABufferIsThereWhileALayerWorksInEitherPass) {
  const MoeModel model = all_chosen(8);
  const Bytes row = kept_expert_activations(model, 1, 1, DataType::bf16, {});
  const std::vector<MemoryUse> small = memory(model, with({2, 1, 64})).curve;
  const std::vector<MemoryUse> large = memory(model, with({3, 1, 64})).curve;
  ASSERT_EQ(small.size(), large.size());
  for (std::size_t turn = 0; turn < 8; ++turn) {  // 4 microbatches, there and back
    const Bytes more =
        large[turn].of(MemoryPart::working) + small[turn].of(MemoryPart::working) * -1;
    EXPECT_EQ(more, row * rows) << turn;
  }
}

TEST_F(PagedStashMemory, WhatIsTooSmallSaysWhatWouldFit) {
  const MoeModel model = all_chosen(8);
  EXPECT_EQ(error(model, {1, 1, 64}), "");
  EXPECT_THAT(error(model, {1, 0.5, 64}),
              testing::AllOf(testing::HasSubstr("keeps 32768 rows in whole pages, it has 16384"),
                             testing::HasSubstr("paged_stash.factor: 1 would fit")));
  // Pages that are not full count whole: 5000 rows for 4096 of a layer.
  EXPECT_EQ(error(model, {1, 1.23, 5000}), "");
  EXPECT_THAT(error(model, {1, 1.06, 5000}), testing::HasSubstr("keeps 40000 rows"));
}

TEST_F(PagedStashMemory, ARankAboveItsBufferIsRefused) {
  const PagedStash stash{1.25, 1.1, 64};
  EXPECT_NO_THROW(stash.check_buffer(125, 100, 3));
  try {
    stash.check_buffer(126, 100, 3);
    FAIL();
  } catch (const Unsuitable& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("126 rows in layer 3, their buffer has room for 125"));
    EXPECT_THAT(e.what(), testing::HasSubstr("paged_stash.rank_capacity: 1.26 would fit"));
  }
}

}  // namespace
}  // namespace moesim
