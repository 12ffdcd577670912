// SPDX-License-Identifier: Apache-2.0
// METRO's choice of replicas against brute force.
#include "sim/mechanism/placement/serving/activated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

/// The most experts that a GPU activates.
int most_activated(const Assignment& assignment, const std::vector<std::int64_t>& counts) {
  const Placement& placement = assignment.placement();
  std::vector<int> activated(static_cast<std::size_t>(placement.gpus()));
  for (int e = 0; e < placement.experts(); ++e) {
    if (counts[static_cast<std::size_t>(e)] == 0) continue;
    ++activated[assignment.gpu(GpuId(0), ExpertId(e)).index()];
  }
  return *std::ranges::max_element(activated);
}

/// The least of these over all choices of replicas.
int least_possible(const Placement& placement, const std::vector<std::int64_t>& counts, int expert,
                   std::vector<int> activated) {
  if (expert == placement.experts()) return *std::ranges::max_element(activated);
  if (counts[static_cast<std::size_t>(expert)] == 0) {
    return least_possible(placement, counts, expert + 1, std::move(activated));
  }
  int least = std::numeric_limits<int>::max();
  for (const SlotId slot : placement.slots_of(ExpertId(expert))) {
    auto with = activated;
    ++with[placement.gpu_of(slot).index()];
    least = std::min(least, least_possible(placement, counts, expert + 1, std::move(with)));
  }
  return least;
}

TEST(FewestActivated, IsNearTheLeastOfAllChoices) {
  std::mt19937 random(11);
  int exact = 0, trials = 0;
  for (; trials < 200; ++trials) {
    SlotTable table(3);
    for (int e = 0; e < 7; ++e) table[static_cast<std::size_t>(e % 3)].emplace_back(e);
    for (int more = 0; more < 4; ++more) {
      table[random() % 3].emplace_back(static_cast<std::int64_t>(random() % 7));
    }
    const Placement placement(7, table);
    std::vector<std::int64_t> counts;
    for (int e = 0; e < 7; ++e) counts.push_back(static_cast<std::int64_t>(random() % 3) * 5);
    const int most = most_activated(fewest_activated(placement, counts), counts);
    const int least = least_possible(placement, counts, 0, std::vector<int>(3));
    EXPECT_GE(most, least);
    EXPECT_LE(most, least + 1);
    exact += most == least ? 1 : 0;
  }
  EXPECT_GE(exact, trials * 9 / 10);
}

/// EPLB's even use activates both replicas of an expert, METRO one of them.
TEST(FewestActivated, TakesOneReplicaOfABatch) {
  const std::vector<int> counts = {8, 8, 8, 8, 8, 8, 8, 8};
  const auto activated = [&](const std::string& replicas) {
    ServingPlay play("{kind: eplb, slots_per_gpu: 4, replicas: " + replicas + "}", four_gpus, 8);
    const LayerDecision d = play.show_counts(counts);
    std::vector<std::int64_t> slots(16);
    for (int s = 0; s < 4; ++s) {
      for (int e = 0; e < 8; ++e) {
        add_choices(d.assignment, GpuId(s), ExpertId(e), play.loads().at(GpuId(s), ExpertId(e)),
                    slots);
      }
    }
    return std::ranges::count_if(slots, [](std::int64_t rows) { return rows > 0; });
  };
  EXPECT_EQ(activated("fewest-activated"), 8);
  EXPECT_GT(activated("any"), 8);
}

}  // namespace
}  // namespace moesim
