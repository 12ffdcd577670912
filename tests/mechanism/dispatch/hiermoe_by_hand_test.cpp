// SPDX-License-Identifier: Apache-2.0
// HierMoE's four-GPU example as whole plans: two nodes of two GPUs, an expert and a token each,
// which choose {1, 3} {1, 3} {2, 4} {1, 2}. Rows have 2,048 bytes, experts 393,216 parameters.
#include <gtest/gtest.h>

#include "tests/mechanism/hand_steps.h"

namespace moesim {
namespace {

const Rows four_tokens = {{0, 2}, {0, 2}, {1, 3}, {0, 1}};

std::int64_t token_bytes_off_node(const PlannedStep& planned) {
  std::int64_t sum = 0;
  for (const Op& op : planned.plan.ops) {
    if (op.exchange() == nullptr || !carries_tokens(op.stream)) continue;
    op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (from.value / 2 != to.value / 2) sum += bytes.value;
    });
  }
  return sum;
}

// Flat, five rows cross, and their results return: 2 x 5 x 2,048. In two phases, four do.
TEST(HierMoeByHand, BytesThatLeaveANode) {
  const HandSteps steps(2, 2, 4, four_tokens, 1);
  const auto bytes = [&](int depth) {
    const PlannedStep planned = steps.last("identity", "contiguous",
                                           fmt::format("{{kind: hierarchical, depth: {}}}", depth));
    return token_bytes_off_node(planned);
  };
  EXPECT_EQ(bytes(1), 20'480);
  EXPECT_EQ(bytes(2), 16'384);
}

/// Rows that the first phase of a dispatch brings to each node, those that it keeps included.
std::vector<int> rows_of_nodes(const PlannedStep& planned) {
  std::vector<int> rows(2);
  for (const RowMove& row : planned.layers[0].rows[0]) ++rows[row.to.index() / 2];
  return rows;
}

// Experts 1 and 4 exchange places: nodes are touched by 2 and 3 tokens in place of 4 and 3. Nothing
// improves further. Both experts move: 2 bytes a parameter, with their state 14.
TEST(HierMoeByHand, OneSwapAndWhatItMoves) {
  const HandSteps steps(2, 2, 4, four_tokens, 4);
  const auto moved = [&](const std::string& payload, bool backward) {
    const auto plans =
        steps.all("identity", fmt::format("{{kind: expert-swap, depth: 2, payload: {}}}", payload),
                  "{kind: hierarchical, depth: 2}", backward);
    EXPECT_EQ(rows_of_nodes(plans[0]), (std::vector<int>{4, 3}));
    EXPECT_EQ(rows_of_nodes(plans[1]), (std::vector<int>{2, 3}));
    std::vector<std::int64_t> bytes;
    for (const PlannedStep& planned : plans) {
      bytes.push_back(0);
      for (const Op& op : planned.plan.ops) {
        if (op.key.stage != Stage::migrate) continue;
        op.traffic().for_each([&](GpuId, GpuId, Bytes b) { bytes.back() += b.value; });
      }
    }
    return bytes;
  };
  EXPECT_EQ(moved("weights", false), (std::vector<std::int64_t>{0, 2 * 393'216 * 2, 0, 0}));
  EXPECT_EQ(moved("weights", true), (std::vector<std::int64_t>{0, 1'572'864, 0, 0}));
  EXPECT_EQ(moved("state", true), (std::vector<std::int64_t>{0, 11'010'048, 0, 0}));
}

}  // namespace
}  // namespace moesim
