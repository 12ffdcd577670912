// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/moetuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

std::vector<double> two_tiers(int gpus, int per_node, double near, double far) {
  std::vector<double> cost;
  for (int g = 0; g < gpus; ++g)
    for (int h = 0; h < gpus; ++h)
      cost.push_back(g == h ? 0 : g / per_node == h / per_node ? near : far);
  return cost;
}

MoetunerInput random_input(int experts, int layers, int gpus, std::uint64_t seed) {
  Random random(seed);
  MoetunerInput input{.loads = {},
                      .transitions = std::vector<PairMatrix>(static_cast<std::size_t>(layers - 1),
                                                             PairMatrix(experts)),
                      .seconds_per_token = two_tiers(gpus, 2, 1, 4),
                      .gpus = gpus};
  for (int l = 0; l < layers; ++l) {
    input.loads.emplace_back();
    for (int e = 0; e < experts; ++e) input.loads.back().push_back(1 + random.below(100));
  }
  for (auto& layer : input.transitions)
    for (auto& count : layer.values()) count = random.below(20);
  return input;
}

TEST(MoetunerTest, ClustersFillTheLeastLoaded) {
  const std::vector<std::int64_t> loads = {1, 7, 5, 4, 3};  // 7 | 5, then 4 | 5, then 3 and 1
  EXPECT_THAT(moetuner_clusters(loads, 2),
              ElementsAre(ElementsAre(ExpertId(1), ExpertId(4)),
                          ElementsAre(ExpertId(0), ExpertId(2), ExpertId(3))));
}

TEST(MoetunerTest, ClustersAreNeverEmpty) {
  const std::vector<std::int64_t> one_hot = {0, 0, 100, 0, 0, 0};
  for (const auto& cluster : moetuner_clusters(one_hot, 6)) EXPECT_EQ(cluster.size(), 1u);
  for (const auto& cluster : moetuner_clusters(std::vector<std::int64_t>(7), 3))
    EXPECT_GE(cluster.size(), 2u);
  EXPECT_EQ(moetuner_clusters(one_hot, 1).begin()->size(), 6u);
  EXPECT_THROW(moetuner_clusters(one_hot, 0), Error);
  EXPECT_THROW(moetuner_clusters(one_hot, 7), Error);
}

TEST(MoetunerTest, ClustersStayWithinTheBoundOfLpt) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    std::vector<std::int64_t> loads(9);
    for (auto& load : loads) load = random.below(100);
    const auto clusters = moetuner_clusters(loads, 3);
    std::int64_t most = 0, least_most = std::numeric_limits<std::int64_t>::max();
    for (const auto& cluster : clusters) {
      std::int64_t sum = 0;
      for (const ExpertId e : cluster) sum += loads[e.index()];
      most = std::max(most, sum);
    }
    for (int code = 0; code < 19683; ++code) {  // 3^9 ways
      std::int64_t sums[3] = {0, 0, 0};
      for (int e = 0, rest = code; e < 9; ++e, rest /= 3)
        sums[rest % 3] += loads[static_cast<std::size_t>(e)];
      least_most = std::min(least_most, std::max({sums[0], sums[1], sums[2]}));
    }
    EXPECT_LE(9 * most, 11 * least_most);  // Graham: 4/3 - 1/(3 m)
  }
}

TEST(MoetunerTest, KeepsEveryExpertOnceAndItsOwnObjective) {
  const MoetunerInput input = random_input(16, 5, 4, 1);
  const MoetunerPlacement placement = place_moetuner(input);
  ASSERT_EQ(placement.layers.size(), 5u);
  std::vector<int> totals(4);
  for (const SlotTable& layer : placement.layers) {
    EXPECT_EQ(owners_of(layer).size(), 16u);
    for (std::size_t g = 0; g < 4; ++g) totals[g] += static_cast<int>(layer[g].size());
  }
  EXPECT_EQ(placement.spread, *std::max_element(totals.begin(), totals.end()) -
                                  *std::min_element(totals.begin(), totals.end()));
  EXPECT_DOUBLE_EQ(placement.seconds, moetuner_seconds(input, placement.layers));
}

TEST(MoetunerTest, ObjectiveOfAHandWrittenPlacement) {
  PairMatrix t(2);
  t.at(ExpertId(0), ExpertId(0)) = 50;
  t.at(ExpertId(0), ExpertId(1)) = 3;
  t.at(ExpertId(1), ExpertId(0)) = 7;
  const MoetunerInput input{.loads = {{53, 7}, {57, 3}},
                            .transitions = {t},
                            .seconds_per_token = {0, 2, 2, 0},
                            .gpus = 2};
  const SlotTable straight = {{ExpertId(0)}, {ExpertId(1)}};
  const SlotTable crossed = {{ExpertId(1)}, {ExpertId(0)}};
  EXPECT_DOUBLE_EQ(moetuner_seconds(input, {straight, straight}), 14);
  EXPECT_DOUBLE_EQ(moetuner_seconds(input, {straight, crossed}), 100);
  EXPECT_DOUBLE_EQ(place_moetuner(input).seconds, 14);
}

TEST(MoetunerTest, NoSwapOfTwoGpusImprovesTheResult) {
  const MoetunerInput input = random_input(12, 4, 4, 3);
  MoetunerPlacement placement = place_moetuner(input);
  for (auto& layer : placement.layers) {
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (layer[a].size() != layer[b].size()) continue;  // else the spread changes too
        std::swap(layer[a], layer[b]);
        EXPECT_GE(moetuner_seconds(input, placement.layers), placement.seconds * (1 - 1e-12));
        std::swap(layer[a], layer[b]);
      }
    }
  }
}

TEST(MoetunerTest, ClustersOfUnequalSizeStillGiveGpusAboutAsManyExperts) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    MoetunerInput input = random_input(16, 8, 4, seed);
    for (auto& loads : input.loads) loads[0] = loads[5] = 1000;  // two clusters of a single expert
    const MoetunerPlacement placement = place_moetuner(input);
    std::size_t least = 16, most = 0;
    for (const auto& cluster : placement.layers[0]) {
      least = std::min(least, cluster.size());
      most = std::max(most, cluster.size());
    }
    EXPECT_GE(most - least, 4u);  // in one layer
    EXPECT_LE(placement.spread, 2) << seed;
  }
}

TEST(MoetunerTest, MeetsBruteForceOverTheClustersOfTwoLayers) {
  // One expert per GPU: only the assignment is left, 24 ways for the second layer.
  int met = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    MoetunerInput input = random_input(4, 2, 4, seed);
    const MoetunerPlacement placement = place_moetuner(input);
    EXPECT_EQ(placement.spread, 0);
    double least = std::numeric_limits<double>::infinity();
    std::vector<int> first = {0, 1, 2, 3};
    do {
      std::vector<int> second = {0, 1, 2, 3};
      do {
        std::vector<SlotTable> layers(2, SlotTable(4));
        for (std::size_t g = 0; g < 4; ++g) {
          layers[0][g] = {ExpertId(first[g])};
          layers[1][g] = {ExpertId(second[g])};
        }
        least = std::min(least, moetuner_seconds(input, layers));
      } while (std::next_permutation(second.begin(), second.end()));
    } while (std::next_permutation(first.begin(), first.end()));
    EXPECT_GE(placement.seconds, least);
    EXPECT_LE(placement.seconds, 1.5 * least) << seed;
    met += placement.seconds == least;
  }
  EXPECT_GE(met, 5);  // pairwise swaps stop in local optima now and then
}

/// The search by its words, on the tables themselves; whole costs, so that no sum is rounded.
std::vector<SlotTable> tuned_plainly(const MoetunerInput& input) {
  const auto gpus = static_cast<std::size_t>(input.gpus);
  std::vector<SlotTable> layers;
  const auto held = [&](std::size_t g) {
    std::size_t sum = 0;
    for (const SlotTable& layer : layers) sum += layer[g].size();
    return sum;
  };
  for (const auto& loads : input.loads) {  // the largest cluster to the GPU with fewest experts
    auto clusters = moetuner_clusters(loads, input.gpus);
    std::ranges::stable_sort(clusters, std::greater<>(), [](const auto& c) { return c.size(); });
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (std::size_t g = 0; g < gpus; ++g) order.emplace_back(held(g), g);
    std::sort(order.begin(), order.end());
    SlotTable layer(gpus);
    for (std::size_t i = 0; i < gpus; ++i) layer[order[i].second] = clusters[i];
    layers.push_back(layer);
  }
  const auto cost = [&](std::size_t l) {  // around layer l
    std::size_t squares = 0;
    for (std::size_t g = 0; g < gpus; ++g) squares += held(g) * held(g);
    double slowest = 0, sum = 0;
    for (std::size_t from = l == 0 ? 0 : l - 1; from <= l && from + 1 < layers.size(); ++from) {
      double most = 0;
      for (std::size_t g = 0; g < gpus; ++g) {
        for (std::size_t h = 0; h < gpus; ++h) {
          double tokens = 0;
          for (const ExpertId e : layers[from][g]) {
            for (const ExpertId f : layers[from + 1][h]) {
              tokens += static_cast<double>(input.transitions[from].at(e, f));
            }
          }
          most = std::max(most, tokens * input.seconds_per_token[g * gpus + h]);
          sum += tokens * input.seconds_per_token[g * gpus + h];
        }
      }
      slowest += most;
    }
    return std::tuple(squares, slowest, sum);
  };
  for (bool better = true; better;) {
    better = false;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      for (std::size_t a = 0; a < gpus; ++a) {
        for (std::size_t b = a + 1; b < gpus; ++b) {
          const auto before = cost(l);
          std::swap(layers[l][a], layers[l][b]);
          if (cost(l) < before) {
            better = true;
          } else {
            std::swap(layers[l][a], layers[l][b]);
          }
        }
      }
    }
  }
  return layers;
}

TEST(MoetunerTest, SwapsWhileOneLowersTheCostAsItsWordsSay) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, 9);
    const auto below = [&](int n) {
      return static_cast<int>(random.below(static_cast<std::uint32_t>(n)));
    };
    const int gpus = 1 + below(4), experts = gpus + below(5), layers = 1 + below(4);
    MoetunerInput input{.loads = {}, .transitions = {}, .seconds_per_token = {}, .gpus = gpus};
    for (int pair = 0; pair < gpus * gpus; ++pair) input.seconds_per_token.push_back(below(4));
    for (int l = 0; l < layers; ++l) {
      input.loads.emplace_back();
      for (int e = 0; e < experts; ++e) input.loads.back().push_back(below(5));
      if (l == 0) continue;
      input.transitions.emplace_back(experts);
      for (auto& count : input.transitions.back().values()) count = below(5);
    }
    ASSERT_EQ(place_moetuner(input).layers, tuned_plainly(input)) << seed;
  }
}

TEST(MoetunerTest, RefusesInputsThatDoNotFit) {
  MoetunerInput input = random_input(8, 3, 4, 1);
  input.seconds_per_token.pop_back();
  EXPECT_THROW(place_moetuner(input), Error);
  input = random_input(8, 3, 4, 1);
  input.transitions.pop_back();
  EXPECT_THROW(place_moetuner(input), Error);
}

}  // namespace
}  // namespace moesim
