// SPDX-License-Identifier: Apache-2.0
// Equal groups, their places, and pruned tokens against their words spelled out, with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "sim/mechanism/placement/affinity/clustering.h"
#include "sim/mechanism/placement/affinity/grouping.h"
#include "sim/mechanism/placement/affinity/occult.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

std::size_t drawn(Random& random, std::size_t n) {
  return random.below(static_cast<std::uint32_t>(n));
}

/// Moves single experts out of the groups that are too large, each time at the least cost.
std::vector<std::vector<ExpertId>> equal_groups(const SquareMatrix& similarity, int groups,
                                                std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(similarity.n), count = static_cast<std::size_t>(groups);
  Points points(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) points[i].push_back(1 - similarity.at(i, j));
  }
  Clustering found = k_means(points, groups, seed);
  std::vector<int>& cluster_of = found.cluster_of;
  const Points& centres = found.centres;
  const auto size = [&](std::size_t c) {
    return static_cast<std::size_t>(std::ranges::count(cluster_of, static_cast<int>(c)));
  };
  const std::size_t floor = n / count;
  while (true) {
    std::size_t smallest = n, largest = 0;
    for (std::size_t c = 0; c < count; ++c) {
      smallest = std::min(smallest, size(c));
      largest = std::max(largest, size(c));
    }
    if (largest < smallest + 2) break;
    double least = std::numeric_limits<double>::infinity();
    std::size_t mover = n, target = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto from = static_cast<std::size_t>(cluster_of[i]);
      for (std::size_t to = 0; to < count; ++to) {
        // From above what all will have to what lacks most: below it, else to one more than it.
        const bool gives = size(from) > floor && size(from) > smallest + 1;
        const bool takes = smallest < floor ? size(to) < floor : size(to) == floor;
        if (!gives || !takes || size(to) + 1 >= size(from)) continue;
        const double growth =
            squared_distance(points[i], centres[to]) - squared_distance(points[i], centres[from]);
        if (growth < least) least = growth, mover = i, target = to;
      }
    }
    cluster_of.at(mover) = static_cast<int>(target);
  }
  std::vector<std::vector<ExpertId>> members(count);
  for (std::size_t i = 0; i < n; ++i) {
    members[static_cast<std::size_t>(cluster_of[i])].emplace_back(static_cast<std::int64_t>(i));
  }
  return members;
}

TEST(GroupingWords, TheExpertsThatLoseLeastMove) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, 4);
    const std::size_t n = 2 + drawn(random, 9);
    SquareMatrix similarity(static_cast<int>(n));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool near = i / 5 == j / 5;  // clusters of five and fewer
        similarity.at(i, j) = similarity.at(j, i) =
            static_cast<double>(drawn(random, 3) + (near ? 3 : 0)) / 8;
      }
      similarity.at(i, i) = 1;
    }
    const int groups = 1 + static_cast<int>(drawn(random, std::min<std::size_t>(n, 4)));
    ASSERT_EQ(similar_groups(similarity, groups, seed), equal_groups(similarity, groups, seed))
        << seed;
  }
}

TEST(GroupingWords, PartsTakeGroupsByFallingLoad) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed, 5);
    const std::size_t parts = 1 + drawn(random, 4), each = 1 + drawn(random, 3),
                      groups = parts * each;
    std::vector<std::vector<ExpertId>> members(groups);
    std::vector<std::int64_t> loads, of_group(groups);
    for (std::size_t e = 0; e < 2 * groups; ++e) {
      loads.push_back(random.below(4));
      const std::size_t g = drawn(random, groups);
      members[g].emplace_back(static_cast<std::int64_t>(e));
      of_group[g] += loads.back();
    }
    std::vector<int> expected(groups, -1);
    std::vector<std::int64_t> sums(parts), held(parts);
    for (std::size_t step = 0; step < groups; ++step) {
      std::size_t next = groups;
      for (std::size_t g = 0; g < groups; ++g) {
        if (expected[g] < 0 && (next == groups || of_group[g] > of_group[next])) next = g;
      }
      std::size_t to = parts;
      for (std::size_t p = 0; p < parts; ++p) {
        if (held[p] < static_cast<std::int64_t>(each) && (to == parts || sums[p] < sums[to]))
          to = p;
      }
      expected[next] = static_cast<int>(to);
      sums[to] += of_group[next];
      ++held[to];
    }
    ASSERT_EQ(place_groups(members, loads, static_cast<int>(parts)), expected) << seed;
  }
  const std::vector<std::vector<ExpertId>> one(1);
  EXPECT_EQ(error_of([&] { place_groups(one, {}, 0); }),
            "error: 1 groups cannot be placed in equal numbers on 0\n");
  EXPECT_EQ(error_of([&] { place_groups(one, {}, 2); }),
            "error: 1 groups cannot be placed in equal numbers on 2\n");
}

TEST(GroupingWords, SimilarityFollowsAtItsRateAndKeepsWhatIsOnTheFloor) {
  SquareMatrix similarity(2), newest(2);
  similarity.values = {1, 0.5, 0.25, 0};
  newest.values = {0, 0.5, 1, 1};
  update_similarity(similarity, newest, 0.25);
  EXPECT_EQ(similarity.values, (std::vector<double>{0.75, 0.5, 0.4375, 0.25}));
  EXPECT_EQ(without_weak_pairs(similarity, 0.4375).values,
            (std::vector<double>{0.75, 0.5, 0.4375, 0}));
  EXPECT_EQ(error_of([&] { update_similarity(similarity, SquareMatrix(3)); }),
            "error: similarities of 2 and 3 experts\n");
}

/// GPUs of a token's choices, best first, each once.
std::vector<GpuId> first_gpus(const std::vector<ExpertId>& ranked, const std::vector<GpuId>& gpu_of,
                              std::size_t allowed) {
  std::vector<GpuId> gpus;
  for (const ExpertId e : ranked) {
    const GpuId gpu = gpu_of[e.index()];
    if (gpus.size() < allowed && std::ranges::count(gpus, gpu) == 0) gpus.push_back(gpu);
  }
  return gpus;
}

TEST(PruningWords, KeepsTheFirstGpusOfAToken) {
  int pruned = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed, 6);
    const std::size_t experts = 2 + drawn(random, 7), gpus = 1 + drawn(random, 4);
    std::vector<GpuId> gpu_of;
    std::vector<float> scores;
    ExpertSimilarity similarity{.experts = static_cast<int>(experts), .values = {}};
    for (std::size_t e = 0; e < experts; ++e) {
      gpu_of.emplace_back(static_cast<std::int64_t>(drawn(random, gpus)));
      scores.push_back(static_cast<float>(drawn(random, 4)));
      for (std::size_t f = 0; f < experts; ++f)
        similarity.values.push_back(static_cast<double>(drawn(random, 3)));
    }
    std::vector<ExpertId> by_score;
    for (std::size_t e = 0; e < experts; ++e) by_score.emplace_back(static_cast<std::int64_t>(e));
    std::ranges::stable_sort(by_score, std::greater<>(),
                             [&](ExpertId e) { return scores[e.index()]; });
    const std::size_t top_k = 1 + drawn(random, std::min<std::size_t>(experts, 4));
    const std::vector<ExpertId> ranked(by_score.begin(),
                                       by_score.begin() + static_cast<std::ptrdiff_t>(top_k));
    const std::size_t allowed = 1 + drawn(random, 3);
    const auto kept = first_gpus(ranked, gpu_of, allowed);
    const auto is_kept = [&](ExpertId e) {
      return std::ranges::count(kept, gpu_of[e.index()]) > 0;
    };
    std::vector<ExpertId> there = by_score;
    std::erase_if(there, [&](ExpertId e) { return !is_kept(e); });
    const auto score = [&] {
      return prune_by_score(ranked, scores, gpu_of, static_cast<int>(allowed));
    };
    const auto similar = [&] {
      return prune_by_similarity(ranked, similarity, gpu_of, static_cast<int>(allowed));
    };
    if (std::ranges::all_of(ranked, is_kept)) {
      ASSERT_EQ(score(), ranked) << seed;
      ASSERT_EQ(similar(), ranked) << seed;
      continue;
    }
    if (there.size() < top_k) {
      const std::string error = "error: a token's " + std::to_string(top_k) +
                                " experts do not fit the " + std::to_string(there.size()) +
                                " on its allowed GPUs\nhint: allow more GPUs per token\n";
      ASSERT_EQ(error_of(score), error) << seed;
      ASSERT_EQ(error_of(similar), error) << seed;
      ++refused;
      continue;
    }
    std::vector<ExpertId> best = there, replaced = ranked;
    best.resize(top_k);
    ASSERT_EQ(score(), best) << seed;
    for (ExpertId& e : replaced) {
      if (is_kept(e)) continue;
      ExpertId nearest(-1);
      for (std::size_t f = 0; f < experts; ++f) {
        const ExpertId other(static_cast<std::int64_t>(f));
        if (!is_kept(other) ||
            std::ranges::count(ranked, other) + std::ranges::count(replaced, other) > 0)
          continue;
        if (nearest.value < 0 || similarity.at(e, other) > similarity.at(e, nearest))
          nearest = other;
      }
      e = nearest;
    }
    ASSERT_EQ(similar(), replaced) << seed;
    ++pruned;
  }
  EXPECT_GT(pruned, 100);
  EXPECT_GT(refused, 20);
}

TEST(PruningWords, PlacesOfOneExpertAndOfOneEach) {
  EXPECT_EQ(place_occult(PairMatrix(1), 1), (SlotTable{{ExpertId(0)}}));
  EXPECT_EQ(place_occult(PairMatrix(2), 2), (SlotTable{{ExpertId(0)}, {ExpertId(1)}}));
  const auto refused = [](int experts, int gpus) {
    return error_of([&] { place_occult(PairMatrix(experts), gpus); });
  };
  EXPECT_EQ(refused(0, 1), "error: 0 experts cannot be placed in equal numbers on 1 GPUs\n");
  EXPECT_EQ(refused(2, 0), "error: 2 experts cannot be placed in equal numbers on 0 GPUs\n");
  EXPECT_EQ(refused(3, 2), "error: 3 experts cannot be placed in equal numbers on 2 GPUs\n");
  const std::vector<ExpertId> ranked = {ExpertId(0)};
  const std::vector<GpuId> gpu_of = {GpuId(0)};
  EXPECT_EQ(error_of([&] { prune_by_score(ranked, std::vector<float>{1}, gpu_of, 0); }),
            "error: a token needs a GPU or more, not 0\n");
}

}  // namespace
}  // namespace moesim
