// SPDX-License-Identifier: Apache-2.0
// What tensor groups exchange in an iteration, simulated and executed.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

/// Stage, pass, block, and whether the exchange is behind its kernel.
using Side = std::tuple<Stage, Pass, BlockKind, bool>;

struct TensorPlan {
  std::vector<OpKey> others;
  std::set<Side> sides;
  std::map<Pass, std::set<int>> of_head;  // parts
};

TensorPlan plan_for(bool execution) {
  MoeModel model = test::whole(6);
  model.shared_experts = 1;
  model.shared_ffn = 512;
  const Topology topology = test::h100_nodes(2);
  const RoutingTrace trace = test::tokens_for(model, 32 * 512, 512);
  Spec options;
  options.spec.parallel = {.tp = 2, .pp = 2, .ep = 8, .etp = 1};
  options.spec.global_batch = 16;
  options.spec.sequence = 512;
  options.explicit_rows = execution;
  Planner planner(test::policy("alltoall"), topology, model, trace, options);
  TensorPlan result;
  for (const Op& op : planner.plan(0).plan.ops) {
    const OpKey& key = op.key;
    if (key.kind != OpKind::tensor_exchange) {
      result.others.push_back(key);
      continue;
    }
    const bool whole = key.stage == Stage::reduce;
    const BlockKind block = whole ? BlockKind::embedding : block_in(key.part / 2);
    if (!whole && block == BlockKind::head) result.of_head[key.pass].insert(key.part);
    result.sides.emplace(key.stage, key.pass, block, !whole && key.part % 2 != 0);
  }
  return result;
}

TEST(TensorGroups, ExchangeAllThatTheyMust) {
  const std::set<Side> sides = plan_for(false).sides;
  constexpr auto other = Stage::other;
  constexpr auto forward = Pass::forward, backward = Pass::backward;
  constexpr bool before = false, behind = true;
  const std::set<Side> expected = {{other, forward, BlockKind::embedding, behind},
                                   {other, backward, BlockKind::embedding, before},
                                   {other, forward, BlockKind::moe, before},
                                   {other, forward, BlockKind::moe, behind},
                                   {other, backward, BlockKind::moe, before},
                                   {other, backward, BlockKind::moe, behind},
                                   {other, backward, BlockKind::head, behind},
                                   {Stage::reduce, backward, BlockKind::embedding, before}};
  EXPECT_TRUE(std::ranges::includes(sides, expected));
  EXPECT_FALSE(sides.contains({other, backward, BlockKind::head, before}));
}

TEST(TensorGroups, GatherForTheHeadAndSumItsLoss) {
  const auto parts = plan_for(false).of_head;
  EXPECT_EQ(parts.at(Pass::forward).size(), 2u);
  EXPECT_EQ(parts.at(Pass::backward).size(), 1u);
}

TEST(TensorGroups, ExchangeTheSameIfExecuted) {
  const TensorPlan simulated = plan_for(false), executed = plan_for(true);
  EXPECT_EQ(simulated.others, executed.others);
  EXPECT_EQ(simulated.sides, executed.sides);
}

}  // namespace
}  // namespace moesim
