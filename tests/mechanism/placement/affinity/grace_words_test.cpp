// SPDX-License-Identifier: Apache-2.0
// GRACE's grouping, copies and weights against their words spelled out, on small cases with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "sim/mechanism/placement/affinity/clustering.h"
#include "sim/mechanism/placement/affinity/grace.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

int below(Random& random, int n) {
  return static_cast<int>(random.below(static_cast<std::uint32_t>(n)));
}

/// Counts of 0 to 3, and a diagonal that nothing may look at.
PairMatrix drawn_affinity(Random& random, int experts) {
  PairMatrix a(experts);
  for (int i = 0; i < experts; ++i) {
    for (int j = 0; j <= i; ++j) {
      const std::int64_t count = i == j ? 1000 : below(random, 4);
      a.at(ExpertId(i), ExpertId(j)) = a.at(ExpertId(j), ExpertId(i)) = count;
    }
  }
  return a;
}

/// The header's sentence, group by group and expert by expert.
ExpertGroups grouped_plainly(const PairMatrix& affinity, const std::vector<ExpertId>& experts,
                             int groups, GroupSizes sizes, std::uint64_t seed) {
  const auto least = static_cast<std::size_t>(sizes.least),
             most = static_cast<std::size_t>(sizes.most);
  PairMatrix part(static_cast<int>(experts.size()));
  for (int i = 0; i < part.experts(); ++i) {
    for (int j = 0; j < part.experts(); ++j) {
      part.at(ExpertId(i), ExpertId(j)) =
          affinity.at(experts[static_cast<std::size_t>(i)], experts[static_cast<std::size_t>(j)]);
    }
  }
  const std::vector<int> clusters = spectral_clusters(part, groups, seed);
  ExpertGroups members(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < experts.size(); ++i) {
    members[static_cast<std::size_t>(clusters[i])].push_back(experts[i]);
  }
  const auto pull = [&](ExpertId e, const std::vector<ExpertId>& group) {
    std::int64_t sum = 0;
    for (const ExpertId other : group) {
      if (other != e) sum += affinity.at(e, other);
    }
    return sum;
  };
  std::vector<ExpertId> homeless;
  for (auto& group : members) {
    const std::vector<ExpertId> whole = group;
    std::stable_sort(group.begin(), group.end());
    std::stable_sort(group.begin(), group.end(),
                     [&](ExpertId a, ExpertId b) { return pull(a, whole) > pull(b, whole); });
    while (group.size() > most) {
      homeless.push_back(group.back());
      group.pop_back();
    }
  }
  std::sort(homeless.begin(), homeless.end());
  for (const ExpertId e : homeless) {
    std::vector<ExpertId>* nearest = nullptr;
    for (auto& group : members) {
      if (group.size() == most) continue;
      if (nearest == nullptr || pull(e, group) > pull(e, *nearest)) nearest = &group;
    }
    nearest->push_back(e);
  }
  for (auto& target : members) {
    while (target.size() < least) {
      std::vector<ExpertId>* from = nullptr;
      ExpertId weakest;
      for (auto& group : members) {
        if (group.size() <= least) continue;
        for (const ExpertId e : group) {
          if (from == nullptr ||
              std::tuple(pull(e, group), e) < std::tuple(pull(weakest, *from), weakest)) {
            from = &group, weakest = e;
          }
        }
      }
      std::erase(*from, weakest);
      target.push_back(weakest);
    }
  }
  for (auto& group : members) std::sort(group.begin(), group.end());
  return members;
}

TEST(GraceWords, GroupsAreCutAndFilledOneExpertAfterTheOther) {
  int uneven = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed, 1);
    const int all = 4 + below(random, 8);
    const PairMatrix affinity = drawn_affinity(random, all);
    std::vector<ExpertId> experts;
    for (int e = 0; e < all; ++e) {
      if (e < 2 || below(random, 5) > 0) experts.emplace_back(e);
    }
    const auto count = static_cast<int>(experts.size());
    const int groups = 1 + below(random, std::min(count, 4));
    const int least = below(random, count / groups + 1);
    const int most = (count + groups - 1) / groups + below(random, 3);
    const auto found = controlled_groups(affinity, experts, groups, {least, most}, seed);
    ASSERT_EQ(found, grouped_plainly(affinity, experts, groups, {least, most}, seed)) << seed;
    uneven += found.front().size() != found.back().size();
  }
  EXPECT_GT(uneven, 50);
}

TEST(GraceWords, SizesHaveToHoldAllExperts) {
  const PairMatrix a(4);
  const std::vector<ExpertId> experts = test::ids<ExpertId>({0, 1, 2, 3});
  const auto error = [&](int groups, int least, int most) {
    return error_of([&] { controlled_groups(a, experts, groups, {least, most}, 1); });
  };
  EXPECT_EQ(error(2, 2, 2), "");
  EXPECT_EQ(error(4, 0, 1), "");
  EXPECT_EQ(error(1, 4, 4), "");
  const auto refused = [](int groups, int least, int most) {
    return "error: 4 experts cannot form " + std::to_string(groups) + " groups of " +
           std::to_string(least) + " to " + std::to_string(most) + "\n";
  };
  for (const auto& [groups, least, most] :
       {std::tuple{0, 0, 9}, {5, 0, 9}, {2, -1, 9}, {2, 3, 9}, {2, 0, 1}}) {
    EXPECT_EQ(error(groups, least, most), refused(groups, least, most));
  }
}

TEST(GraceWords, SizesOfFewExpertsAreOneOrMore) {
  EXPECT_EQ(grace_sizes(3, 4), (GroupSizes{.least = 1, .most = 1}));  // none each, one more
  EXPECT_EQ(grace_sizes(8, 4), (GroupSizes{.least = 1, .most = 3}));
  EXPECT_EQ(grace_sizes(100, 1), (GroupSizes{.least = 85, .most = 115}));
  EXPECT_EQ(grace_sizes(100, 1, 0), (GroupSizes{.least = 99, .most = 101}));
}

GraceReplicas copied_plainly(const std::vector<std::int64_t>& loads, const SlotTable& primaries,
                             GraceCopyLoad rule) {
  GraceReplicas result;
  double total = 0;
  for (const auto& experts : primaries) {
    double sum = 0;
    for (const ExpertId e : experts) sum += static_cast<double>(loads[e.index()]);
    result.predicted.push_back(sum);
    total += sum;
  }
  const auto gpus = result.predicted.size();
  if (gpus == 1 || total == 0) return result;
  std::size_t busiest = 0;
  for (std::size_t g = 1; g < gpus; ++g) {
    if (result.predicted[g] > result.predicted[busiest]) busiest = g;
  }
  const double most = result.predicted[busiest];
  const auto n = std::clamp<std::size_t>(
      static_cast<std::size_t>(most / (total / static_cast<double>(gpus))), 1, gpus - 1);
  std::vector<std::pair<double, std::size_t>> others;
  for (std::size_t g = 0; g < gpus; ++g) {
    if (g != busiest) others.emplace_back(result.predicted[g], g);
  }
  std::sort(others.begin(), others.end());
  for (std::size_t i = 0; i < n; ++i)
    result.gpus.emplace_back(static_cast<std::int64_t>(others[i].second));
  std::vector<std::pair<std::int64_t, ExpertId>> ranked;
  for (const ExpertId e : primaries[busiest]) ranked.emplace_back(-loads[e.index()], e);
  std::sort(ranked.begin(), ranked.end());
  double copied = 0;
  for (const auto& [load, e] : ranked) {
    if (copied * static_cast<double>(n + 1) > most * static_cast<double>(n)) break;
    result.experts.push_back(e);
    copied -= static_cast<double>(load);
  }
  const double each =
      (rule == GraceCopyLoad::conserved ? copied : most) / static_cast<double>(n + 1);
  result.predicted[busiest] = most - copied + each;
  for (const GpuId gpu : result.gpus) result.predicted[gpu.index()] += each;
  return result;
}

TEST(GraceWords, CopiesTakeTheHeaviestExpertsToTheLightestGpus) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed, 2);
    const int experts = 1 + below(random, 8);
    std::vector<std::int64_t> loads;
    SlotTable primaries(1 + random.below(4));
    for (int e = 0; e < experts; ++e) {
      loads.push_back(below(random, 5));
      primaries[random.below(static_cast<std::uint32_t>(primaries.size()))].emplace_back(e);
    }
    const auto rule = seed % 2 == 0 ? GraceCopyLoad::conserved : GraceCopyLoad::published;
    const GraceReplicas found = replicate_grace(loads, primaries, rule);
    const GraceReplicas expected = copied_plainly(loads, primaries, rule);
    ASSERT_EQ(found.experts, expected.experts) << seed;
    ASSERT_EQ(found.gpus, expected.gpus) << seed;
    for (std::size_t g = 0; g < primaries.size(); ++g) {
      ASSERT_NEAR(found.predicted[g], expected.predicted[g], 1e-12) << seed;
    }
  }
}

TEST(GraceWords, WeightsAreOfTheNearestHoldersByInverseLoad) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed, 3);
    const int gpus = 1 + below(random, 7), per_node = 1 + below(random, 3);
    std::vector<double> load;
    std::vector<GpuId> holders;
    for (int g = 0; g < gpus; ++g) {
      load.push_back(below(random, 4));
      if (g == 0 || below(random, 2) == 0) holders.emplace_back(g);
    }
    const int source = below(random, gpus);
    const auto choice = below(random, 3) == 0 ? GraceChoice::weighted : GraceChoice::topology_aware;
    std::vector<std::size_t> used;  // of the first of: itself, its node, all
    for (int reach = choice == GraceChoice::weighted ? 2 : 0; used.empty(); ++reach) {
      for (std::size_t i = 0; i < holders.size(); ++i) {
        const int gpu = holders[i].value;
        if (reach == 2 || gpu == source || (reach == 1 && gpu / per_node == source / per_node)) {
          used.push_back(i);
        }
      }
    }
    std::vector<double> expected(holders.size());
    const auto load_of = [&](std::size_t i) { return load[holders[i].index()]; };
    const auto idle = std::ranges::count_if(used, [&](std::size_t i) { return load_of(i) == 0; });
    double sum = 0;
    for (const std::size_t i : used) sum += idle > 0 ? 0 : 1 / load_of(i);
    for (const std::size_t i : used) {
      expected[i] = idle == 0         ? 1 / load_of(i) / sum
                    : load_of(i) == 0 ? 1 / static_cast<double>(idle)
                                      : 0;
    }
    const auto found = grace_weights(GpuId(source), holders, load, per_node, choice);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-12) << seed;
  }
}

}  // namespace
}  // namespace moesim
