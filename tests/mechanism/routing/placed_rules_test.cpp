// SPDX-License-Identifier: Apache-2.0
// Rules that ask where experts are see the slots of their own step, and placements see the choices
// that were recorded. Occult's cases are worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/mechanism/routing/serving_gpus.h"
#include "tests/mechanism/hand_steps.h"
#include "tests/mechanism/routing/recorded_layer.h"
#include "tests/trace/synthesize.h"

namespace moesim {
namespace {

/// Ten tokens of experts {0, 2}, eight of {1, 3}, two of {0, 1}.
Rows hand_case() {
  Rows tokens(10, {0, 2});
  tokens.insert(tokens.end(), 8, {1, 3});
  tokens.insert(tokens.end(), 2, {0, 1});
  return tokens;
}

const std::string occult = "{kind: occult, profile: 1}";

// Together on a GPU are {0, 2} and {1, 3}: 10 + 8 + 2 x 2 rows, of two GPUs each where experts are
// in the order of their ids: 10 x 2 + 8 x 2 + 2. One row per choice: 20 x 2.
TEST(OccultByHand, RescheduledTokensVisitFewGpus) {
  const HandSteps steps(1, 2, 4, hand_case(), 2);
  EXPECT_EQ(steps.rows(occult, "dedup"), 22);
  EXPECT_EQ(steps.rows("contiguous", "dedup"), 38);
  EXPECT_EQ(steps.rows("contiguous", "alltoall"), 40);
}

// On the rescheduled GPUs only {0, 1} has to change: it keeps the GPU of 0 and takes 2 there.
TEST(OccultByHand, PruningIsToTheRescheduledGpus) {
  const HandSteps steps(1, 2, 4, hand_case(), 2);
  const PlannedStep plan = steps.last("{kind: occult-prune, gpus: 1}", occult, "dedup");
  EXPECT_EQ(plan.layers[0].assignment().placement().table(),
            (SlotTable{{ExpertId(0), ExpertId(2)}, {ExpertId(1), ExpertId(3)}}));
  EXPECT_EQ(plan.change.replaced_choices, 2);
  std::vector<int> arrived(2);
  for (const RowMove& row : plan.layers[0].rows[0]) ++arrived[row.to.index()];
  EXPECT_EQ(arrived, (std::vector<int>{12, 8}));
  Rows expected = hand_case();
  expected[18] = expected[19] = {0, 2};
  for (std::size_t t = 0; t < expected.size(); ++t) {
    std::vector<int> chosen;
    for (const ExpertId e : plan.layers[0].chosen[t]) chosen.push_back(e.value);
    EXPECT_EQ(chosen, expected[t]) << "token " << t;
  }
}

// 64 experts, top-8, on four GPUs: no token has more rows than the GPUs that it may visit, where
// without pruning most have more.
TEST(OccultByHand, RowsPerTokenAreAtMostTheGpusAllowed) {
  SynthOptions options;
  options.experts = 64;
  options.top_k = 8;
  options.tokens = 1024;
  options.affinity = 0.4;
  options.skew = 0.5;
  const RoutingTrace trace = synthesize(options);
  const HandSteps steps(1, 4, 64, Recorded::rows_of(trace.step(0).ids(0)), 2);
  EXPECT_GT(steps.rows(occult, "dedup"), 5 * 1024 / 2);
  for (const char* placement : {"contiguous", "{kind: occult, profile: 1}"}) {
    for (const char* by : {"similarity", "score"}) {
      const PlannedStep plan = steps.last(
          fmt::format("{{kind: occult-prune, gpus: 2, by: {}}}", by), placement, "dedup");
      EXPECT_LE(plan.layers[0].counts.phases[0].total(), 2 * 1024u) << placement << " " << by;
      EXPECT_GT(plan.change.replaced_choices, 0);
    }
  }
}

/// Expert 0 is on GPUs 0 and 1 and takes turns for rank 0; expert 1 is on GPU 1.
Assignment in_turns() {
  const Placement slots(2, {{ExpertId(0)}, {ExpertId(0), ExpertId(1)}});
  const SlotId first(0), second(1), third(2);
  return Assignment(slots,
                    {{{{first, 1}, {second, 1}}, {{third, 1}}}, {{{second, 1}}, {{third, 1}}}});
}

TEST(ServingGpus, FollowTheTurnsOfReplicas) {
  const Assignment assignment = in_turns();
  ServingGpus serving(assignment);
  const auto gpus = [&] {
    return std::vector<GpuId>(serving.gpus().begin(), serving.gpus().end());
  };
  serving.enter(GpuId(0));
  EXPECT_EQ(gpus(), (std::vector<GpuId>{GpuId(0), GpuId(1)}));
  serving.serve(std::vector<std::uint16_t>{1});
  serving.serve(std::vector<std::uint16_t>{0, IdRows::dropped});
  EXPECT_EQ(gpus(), (std::vector<GpuId>{GpuId(1), GpuId(1)}));
  serving.serve(std::vector<std::uint16_t>{0});
  EXPECT_EQ(gpus(), (std::vector<GpuId>{GpuId(0), GpuId(1)}));
  serving.enter(GpuId(1));
  EXPECT_EQ(gpus(), (std::vector<GpuId>{GpuId(1), GpuId(1)}));
}

// 16 experts on four nodes of one GPU; a placement that turns their order round changes which
// experts share a node, and the limit follows it.
TEST(NodeLimited, NodesAreThoseOfThePlacement) {
  const Topology topology = bare_nodes(4, 1);
  std::mt19937 random(21);
  const Recorded r = random_layer(random, 4, 20, 16, 3, true);
  SlotTable table(4);
  for (int e = 0; e < 16; ++e) table[static_cast<std::size_t>(e % 4)].emplace_back(e);
  const Assignment placed(Placement(16, table), 4);
  const auto limit = make_routing("{kind: node-limited, nodes: 1}", r, {}, 4, topology);
  ASSERT_TRUE(limit->after_placement());
  const Routed result = route(*limit, r, &placed);
  EXPECT_GT(result.change.replaced_choices, 0);
  for (const auto& row : result.rows) {
    std::set<int> nodes;
    for (const int e : row) nodes.insert(e % 4);
    EXPECT_EQ(nodes.size(), 1u);
  }
}

TEST(NodeLimited, NamesChoicesThatDoNotFitTheirNodes) {
  const Topology topology = bare_nodes(4, 1);
  std::mt19937 random(22);
  const Recorded r = random_layer(random, 4, 4, 8, 3, false);
  EXPECT_THROW(route(*make_routing("{kind: node-limited, nodes: 1}", r, {}, 4, topology), r),
               Error);
  EXPECT_NO_THROW(
      route(*make_routing("{kind: node-limited, nodes: 1, outside: drop}", r, {}, 4, topology), r));
}

// A recorded token that two ranks hold is pruned for each of them: to the experts of its own group.
TEST(OccultPrune, ATokenThatIsPlayedTwiceIsPrunedForEachOfItsRanks) {
  Recorded r(4, 1, 2, {0, 1});
  r.batch.ranks = {{{0, 1}}, {}, {{0, 1}}, {}};
  // Groups of two ranks: {0, 2}, {1, 3} and {0, 3}, {1, 2}.
  const SlotTable table = {{ExpertId(0), ExpertId(2)},
                           {ExpertId(1), ExpertId(3)},
                           {ExpertId(0), ExpertId(3)},
                           {ExpertId(1), ExpertId(2)}};
  const Assignment placed(Placement(4, table), 2);
  const auto prune = make_routing("{kind: occult-prune, gpus: 1}", r, {}, 2);
  EXPECT_EQ(route(*prune, r, &placed).rows, (Rows{{0, 2}, {0, 3}}));
}

/// Eight tokens want experts 0 and 1 of GPU 0, four want those of GPU 1: a mean of six each.
TEST(RankCapacity, DropsLaterTokensOfAFullRank) {
  Rows tokens(4, {0});
  tokens.insert(tokens.end(), 4, {1});
  tokens.insert(tokens.end(), 4, {2});
  const HandSteps steps(1, 2, 4, tokens, 1);
  const auto run = [&](double factor) {
    return steps.last(fmt::format("{{kind: rank-capacity, factor: {}}}", factor), "contiguous",
                      "alltoall");
  };
  const PlannedStep tight = run(1);
  EXPECT_EQ(tight.change.dropped_choices, 2);
  EXPECT_EQ(tight.layers[0].counts.slots, (std::vector<std::int64_t>{4, 2, 4, 0}));
  EXPECT_EQ(run(1.2).change.dropped_choices, 0);  // 7.2, rounded up
  EXPECT_EQ(run(0.5).change.dropped_choices, 6);  // 3 each of 12
}

/// A stage of a pipeline holds some of the cluster's groups: here two tokens of one group of two.
TEST(RankCapacity, CountsTheGroupsThatTakePart) {
  Recorded r(4, 1, 2, {0, 1, 0, 1});
  r.batch.ranks = {{{0, 1}}, {{1, 1}}};
  const Assignment placed(Placement(2, {{ExpertId(0)}, {ExpertId(1)}}), 2);
  const auto capacity = make_routing("{kind: rank-capacity, factor: 0.5}", r, {}, 2);
  EXPECT_EQ(route(*capacity, r, &placed).rows, (Rows{{0, 1}, {-1, -1}}));
}

}  // namespace
}  // namespace moesim
