// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/exflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"
#include "tests/mechanism/placement/affinity/judged.h"

namespace moesim {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

/// Transitions of top-1 tokens drawn at random; a few pairs are frequent.
std::vector<PairMatrix> random_transitions(int experts, int layers, std::uint64_t seed) {
  Random random(seed);
  std::vector<PairMatrix> transitions(static_cast<std::size_t>(layers - 1), PairMatrix(experts));
  for (auto& layer : transitions) {
    for (auto& count : layer.values()) {
      count = random.below(3) == 0 ? random.below(50) : random.below(5);
    }
  }
  return transitions;
}

/// Every way to put the experts of one layer into parts of equal size.
void add_splits(std::vector<int>& layer, std::vector<int>& room, std::size_t experts,
                std::vector<std::vector<int>>& splits) {
  if (layer.size() == experts) {
    splits.push_back(layer);
    return;
  }
  for (std::size_t p = 0; p < room.size(); ++p) {
    if (room[p] == 0) continue;
    --room[p];
    layer.push_back(static_cast<int>(p));
    add_splits(layer, room, experts, splits);
    layer.pop_back();
    ++room[p];
  }
}

/// The least cut over all placements, found layer by layer: a shortest path over the splits.
std::int64_t least_cut(const std::vector<PairMatrix>& transitions, int experts, int parts) {
  std::vector<std::vector<int>> splits;
  std::vector<int> layer, room(static_cast<std::size_t>(parts), experts / parts);
  add_splits(layer, room, static_cast<std::size_t>(experts), splits);
  std::vector<std::int64_t> best(splits.size());
  for (const PairMatrix& m : transitions) {
    std::vector<std::int64_t> next(splits.size(), std::numeric_limits<std::int64_t>::max());
    for (std::size_t a = 0; a < splits.size(); ++a) {
      for (std::size_t b = 0; b < splits.size(); ++b) {
        next[b] = std::min(next[b], best[a] + cut_transitions({m}, {splits[a], splits[b]}));
      }
    }
    best = next;
  }
  return *std::min_element(best.begin(), best.end());
}

TEST(ExflowTest, MeetsBruteForceOnTwoLayersOfFourExperts) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto transitions = random_transitions(4, 2, seed);
    ASSERT_EQ(cut_transitions(transitions, exflow_parts(transitions, 4, 2)),
              least_cut(transitions, 4, 2))
        << seed;
  }
}

TEST(ExflowTest, MeetsOrNearsBruteForceOnMoreLayersAndParts) {
  int met = 0, cases = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const auto& [experts, parts, layers] : {std::tuple{4, 2, 5}, {6, 2, 4}, {6, 3, 3}}) {
      const auto transitions = random_transitions(experts, layers, seed);
      const auto cut = cut_transitions(transitions, exflow_parts(transitions, experts, parts));
      const auto least = least_cut(transitions, experts, parts);
      EXPECT_GE(cut, least);
      EXPECT_LE(100 * cut, 105 * least)
          << experts << " experts, " << parts << " parts, seed " << seed;
      met += cut == least;
      ++cases;
    }
  }
  EXPECT_GE(met, cases - 2);  // a local search may miss a few
}

TEST(ExflowTest, TokensThatKeepTheirExpertNeedNoTransfer) {
  PairMatrix same(8);
  for (int e = 0; e < 8; ++e) same.at(ExpertId(e), ExpertId(e)) = e + 1;
  const std::vector<PairMatrix> transitions(5, same);
  EXPECT_EQ(cut_transitions(transitions, exflow_parts(transitions, 8, 4)), 0);
}

TEST(ExflowTest, FollowsAPermutationOfExperts) {
  // Expert e of a layer is followed by 5 e + 3 mod 16: a placement without any cut exists.
  PairMatrix next(16);
  for (int e = 0; e < 16; ++e) next.at(ExpertId(e), ExpertId((5 * e + 3) % 16)) = 10;
  const std::vector<PairMatrix> transitions(4, next);
  EXPECT_EQ(cut_transitions(transitions, exflow_parts(transitions, 16, 4)), 0);
  const auto layers = place_exflow(transitions, 16, 2, 4);
  EXPECT_EQ(exflow_score(transitions, layers, 4), 0);
}

/// Between layers 1 and 2 the few tokens of the first part's two experts change places with those
/// of another part; all else keeps its expert, so that a swap of two experts cuts more.
TEST(ExflowTest, RelabelsTheLayersBehindAChangeOfParts) {
  for (const int other : {2, 4, 6}) {  // the first expert of the other part
    PairMatrix keep(8), change(8);
    for (int e = 0; e < 8; ++e) {
      keep.at(ExpertId(e), ExpertId(e)) = 100;
      const int to = e < 2 ? e + other : e / 2 == other / 2 ? e - other : e;
      change.at(ExpertId(e), ExpertId(to)) = 1;
    }
    const std::vector<PairMatrix> transitions{keep, change, keep};
    const LayerParts parts = exflow_parts(transitions, 8, 4, {.kicks = 0});
    EXPECT_EQ(cut_transitions(transitions, parts), 0) << other;
  }
}

/// Most tokens of experts 0 and 2 change places, those of 1 and 3 stay: GPUs 0 and 2 would exchange
/// theirs, were they of one node.
TEST(ExflowTest, RelabelsNoGpusOfTwoNodes) {
  PairMatrix keep(4), change(4);
  for (int e = 0; e < 4; ++e) keep.at(ExpertId(e), ExpertId(e)) = 100;
  change.at(ExpertId(0), ExpertId(2)) = change.at(ExpertId(2), ExpertId(0)) = 10;
  change.at(ExpertId(1), ExpertId(1)) = change.at(ExpertId(3), ExpertId(3)) = 30;
  const SlotTable contiguous = contiguous_placement(4, 4, 4).table();
  EXPECT_EQ(place_exflow({keep, change, keep}, 4, 2, 2, {.kicks = 0}),
            std::vector<SlotTable>(4, contiguous));
}

TEST(ExflowTest, NoSwapOfTwoExpertsImprovesTheResult) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto transitions = random_transitions(12, 4, seed);
    LayerParts parts = exflow_parts(transitions, 12, 3, {.kicks = 0});
    const std::int64_t cut = cut_transitions(transitions, parts);
    for (auto& layer : parts) {
      for (std::size_t a = 0; a < 12; ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          std::swap(layer[a], layer[b]);
          ASSERT_GE(cut_transitions(transitions, parts), cut) << seed;
          std::swap(layer[a], layer[b]);
        }
      }
    }
  }
}

TEST(ExflowTest, ShufflesOfALayerFindWhatSwapsMiss) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto transitions = random_transitions(9, 5, seed);
    const auto cut = [&](int kicks) {
      return cut_transitions(transitions, exflow_parts(transitions, 9, 3, {.kicks = kicks}));
    };
    EXPECT_LE(cut(64), cut(0));
    EXPECT_LE(cut(64), cut(1));
    better += cut(64) < cut(0);
  }
  EXPECT_GT(better, 10);
}

TEST(ExflowTest, TwoStagesKeepTheNodesOfTheFirst) {
  const auto transitions = random_transitions(16, 4, 2);
  const LayerParts nodes = exflow_parts(transitions, 16, 2);
  const auto layers = place_exflow(transitions, 16, 2, 4);
  ASSERT_THAT(layers, SizeIs(4));
  for (std::size_t l = 0; l < 4; ++l) {
    EXPECT_THAT(layers[l], Each(SizeIs(2)));
    const auto gpu_of = owners_of(layers[l]);
    for (std::size_t e = 0; e < 16; ++e) EXPECT_EQ(gpu_of[e].value / 4, nodes[l][e]);
  }
  const std::vector<SlotTable> contiguous(4, contiguous_placement(16, 8, 8).table());
  EXPECT_LT(exflow_score(transitions, layers, 4), exflow_score(transitions, contiguous, 4));
}

TEST(ExflowTest, ScoresGpusNodesAndClusters) {
  PairMatrix t(4);  // GPUs {0} {1} of node 0, {2} {3} of node 1
  t.at(ExpertId(0), ExpertId(0)) = 1;
  t.at(ExpertId(0), ExpertId(1)) = 1;
  t.at(ExpertId(0), ExpertId(3)) = 2;
  const std::vector<SlotTable> layers(2, contiguous_placement(4, 4, 4).table());
  EXPECT_DOUBLE_EQ(exflow_score({t}, layers, 2), (0 + 1 + 2 * 2) / 4.0);
}

TEST(ExflowTest, RefusesUnequalParts) {
  EXPECT_THROW(exflow_parts({PairMatrix(6)}, 6, 4), Error);
  EXPECT_THROW(exflow_parts({PairMatrix(6)}, 8, 4), Error);
}

}  // namespace
}  // namespace moesim
