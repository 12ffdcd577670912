// SPDX-License-Identifier: Apache-2.0
// FSDP with expert parallelism: rings over the groups.
#include <gtest/gtest.h>

#include "tests/mechanism/placement/fsep/fsep_steps.h"

namespace moesim {
namespace {

TEST(FsdpEp, GathersAndReducesInRingsOverTheGroups) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("fsdp-ep", bare_nodes(2, 4), model,
                         trace_of(model, 8, 1, 1, [](int) { return 0; }), 2);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_EQ(replay.slots(0)[5],
            (std::vector<ExpertId>{ExpertId(1), ExpertId(3), ExpertId(5), ExpertId(7)}));
  // Four copies: three rounds of a quarter of four experts of 384 bytes, half of them either way.
  constexpr std::int64_t half = 3 * 4 * 384 / 4 / 2;
  for (const auto* list : {&decision.gather, &decision.regather, &decision.reduce}) {
    ASSERT_EQ(list->size(), 1u);
    const ByteMatrix& traffic = list->front().traffic;
    EXPECT_EQ(traffic.entries(), 16u);
    EXPECT_EQ(traffic.at(GpuId(1), GpuId(3)), Bytes(half));
    EXPECT_EQ(traffic.at(GpuId(1), GpuId(7)), Bytes(half));
    EXPECT_EQ(traffic.at(GpuId(7), GpuId(1)), Bytes(half));
  }
  EXPECT_EQ(decision.memory[0].resident(), Bytes(4 * 192 / 4 * 16));
  EXPECT_EQ(decision.memory[0].gathered, Bytes(2 * 4 * 384));
}

TEST(FsdpEp, TwoGroupsSendEachOtherTheirHalf) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("fsdp-ep", bare_nodes(2, 4), model,
                         trace_of(model, 8, 1, 1, [](int) { return 0; }), 4);
  const ByteMatrix& traffic = replay.plans[0].layers[0].decision.gather[0].traffic;
  EXPECT_EQ(traffic.entries(), 8u);
  EXPECT_EQ(traffic.at(GpuId(1), GpuId(5)), Bytes(2 * 384 / 2));
}

TEST(FsdpEp, OneGroupHasNothingToGather) {
  const MoeModel model = fsep_model();
  const FsepSteps replay("fsdp-ep", bare_nodes(1, 4), model,
                         trace_of(model, 4, 1, 1, [](int) { return 0; }), 4);
  for (const Op& op : replay.plans[0].plan.ops) EXPECT_NE(op.stream, Stream::param);
}

}  // namespace
}  // namespace moesim
