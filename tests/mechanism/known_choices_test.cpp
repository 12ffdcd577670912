// SPDX-License-Identifier: Apache-2.0
// Counts that are kept are those that are counted anew.
#include "sim/mechanism/known_choices.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/layer_tokens.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

TEST(KnownChoices, AreThoseOfTheSameTokensAlone) {
  std::mt19937 random(1);
  constexpr int gpus = 32, experts = 64, top_k = 4;
  constexpr std::int64_t per_rank = 300;
  std::deque<Tokens> layers;
  for (int i = 0; i < 2; ++i) {
    const auto ids = random_ids(random, gpus * per_rank, experts, top_k);
    layers.emplace_back(gpus, experts, top_k, per_rank, ids, gpus);
  }
  Batch shorter = layers[0].batch;
  for (auto& runs : shorter.ranks) runs.front().count -= 50;
  const std::vector<LayerTokens> all = {
      layers[0].view(), layers[1].view(), {shorter, layers[0].step->ids(0), layers[0].assignment}};
  std::vector<std::unique_ptr<Dispatch>> dispatches;
  for (const char* kind : {"alltoall", "dedup", "{kind: hierarchical, depth: auto}",
                           "{kind: hierarchical, depth: 2}", "deepep-normal"}) {
    dispatches.push_back(make_dispatch(kind));
  }
  const KnownChoices none(false);
  std::vector<RowCounts> expected;
  for (const LayerTokens& tokens : all) {
    for (const auto& dispatch : dispatches) expected.push_back(dispatch->count(tokens));
  }
  const KnownChoices known(true);
  for (int round = 0; round < 2; ++round) {
    auto counts = expected.begin();
    for (const LayerTokens& tokens : all) {
      for (const auto& dispatch : dispatches) {
        const RowCounts again = dispatch->count(tokens);
        EXPECT_EQ(again.phases, counts->phases);
        EXPECT_EQ(again.slots, counts->slots);
        ++counts;
      }
    }
  }
  const auto& runs = all[0].batch.ranks[0];
  const KnownChoices::OfRank* kept = KnownChoices::find(all[0].ids.data(), runs);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->chosen.size(), experts);
  EXPECT_FALSE(kept->touching.empty());
  EXPECT_EQ(KnownChoices::find(all[1].ids.data(), runs), nullptr) << "of other ids";
}

TEST(KnownChoices, LoadsAreCountedOnceForPlacementAndDispatch) {
  std::mt19937 random(2);
  constexpr int gpus = 32, experts = 64, top_k = 4;
  const auto ids = random_ids(random, gpus * 300, experts, top_k);
  const Tokens layer(gpus, experts, top_k, 300, ids, gpus);
  const LayerTokens tokens = layer.view();
  const auto loads = [&](int counted) { return count_loads(tokens.batch, tokens.ids, counted); };
  const auto dispatch = make_dispatch("alltoall");
  const LoadMatrix expected = loads(experts), wider = loads(experts + 1);
  const RowCounts counts = dispatch->count(tokens);
  const KnownChoices known(true);
  EXPECT_EQ(loads(experts), expected);
  KnownChoices::OfRank* kept = KnownChoices::find(tokens.ids.data(), tokens.batch.ranks[0]);
  ASSERT_NE(kept, nullptr);
  ASSERT_EQ(kept->chosen.size(), experts);
  EXPECT_EQ(dispatch->count(tokens).phases, counts.phases);
  EXPECT_EQ(loads(experts + 1), wider) << "with the shared expert";
  EXPECT_EQ(dispatch->count(tokens).phases, counts.phases);
  ++kept->chosen[0];
  EXPECT_EQ(loads(experts).at(GpuId(0), ExpertId(0)), expected.at(GpuId(0), ExpertId(0)) + 1);
}

/// How often experts are chosen says which slots serve all choices; rows are of one assignment.
TEST(KnownChoices, OfExpertsServeSplitAssignments) {
  std::mt19937 random(3);
  constexpr int gpus = 8, experts = 16, top_k = 4;
  const auto ids = random_ids(random, gpus * 300, experts, top_k);
  const Tokens layer(gpus, experts, top_k, 300, ids, gpus);
  const auto counts_of = [&](const Assignment& split, const char* kind) {
    return make_dispatch(kind, bare_nodes(2, 4))->count({layer.batch, layer.step->ids(0), split});
  };
  std::vector<Assignment> assignments;
  while (assignments.size() < 2) {
    const Assignment drawn = random_assignment(random, {2, 4, gpus}, experts);
    if (drawn.split()) assignments.push_back(drawn);
  }
  for (const char* kind : {"alltoall", "dedup", "{kind: deepep-normal, rounds: 2, channels: 1}"}) {
    const RowCounts first = counts_of(assignments[0], kind);
    const RowCounts second = counts_of(assignments[1], kind);
    const KnownChoices known(true);
    for (int round = 0; round < 2; ++round) {
      const RowCounts again = counts_of(assignments[0], kind),
                      other = counts_of(assignments[1], kind);
      EXPECT_EQ(again.phases, first.phases) << kind;
      EXPECT_EQ(again.slots, first.slots) << kind;
      EXPECT_EQ(other.phases, second.phases) << kind;
      EXPECT_EQ(other.slots, second.slots) << kind;
    }
    KnownChoices::OfRank* kept =
        KnownChoices::find(layer.step->ids(0).data(), layer.batch.ranks[0]);
    ASSERT_NE(kept, nullptr);
    EXPECT_TRUE(kept->touching.empty());
  }
  const KnownChoices known(true);
  const RowCounts before = counts_of(assignments[0], "alltoall");
  KnownChoices::OfRank* kept = KnownChoices::find(layer.step->ids(0).data(), layer.batch.ranks[0]);
  ASSERT_EQ(kept->chosen.size(), experts);
  ++kept->chosen[0];
  const auto served = [](const RowCounts& counts) {
    return std::accumulate(counts.slots.begin(), counts.slots.end(), std::int64_t{0});
  };
  EXPECT_EQ(served(counts_of(assignments[0], "alltoall")), served(before) + 1);
}

}  // namespace
}  // namespace moesim
