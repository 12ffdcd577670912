// SPDX-License-Identifier: Apache-2.0
// Placements from pairs of experts: what they see, when they decide, and what that spares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"
#include "sim/mechanism/placement/affinity/exflow.h"
#include "sim/planner/iteration/planner.h"
#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/placement/affinity/judged.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using Picked = std::vector<int>;  // of one token
using Routing3 = std::function<Picked(int step, int layer, int token)>;

SlotTable table(const std::vector<std::vector<int>>& experts) {
  SlotTable slots;
  for (const auto& gpu : experts) {
    auto& row = slots.emplace_back();
    for (const int e : gpu) row.emplace_back(e);
  }
  return slots;
}

/// A placement planner on steps that a test makes up; tokens lie evenly on the ranks, what is over
/// on the first ones.
class Replay {
 public:
  Replay(const std::string& placement, int gpus, int experts, int top_k, int layers, int nodes = 1,
         int ep = 0)
      : topology_(bare_nodes(nodes, gpus / nodes)),
        info_{"t", "toy", experts, top_k, {}, Phase::synthetic, ""},
        gpus_(gpus) {
    for (int l = 0; l < layers; ++l) info_.layers.push_back(l);
    model_.hidden = 128;
    model_.experts = experts;
    model_.top_k = top_k;
    model_.expert_ffn = 8;
    const SystemSpec system =
        parse_system("{name: t, source: test, routing: identity, placement: " + placement +
                         ", dispatch: dedup, schedule: sequential}",
                     "test");
    placer_ = system.placement.make(
        {EpGroups(topology_, ep == 0 ? gpus : ep), model_, experts, layers, true, {}, 0, 0, {}});
  }

  /// The slots of every layer in the next step.
  std::vector<SlotTable> step(int tokens, const Routing3& routing) {
    std::vector<int> ids;
    for (int l = 0; l < layers(); ++l) {
      for (int t = 0; t < tokens; ++t) {
        for (const int e : routing(step_, l, t)) ids.push_back(e);
      }
    }
    StepArrays arrays;
    arrays.ids = IdArray(info_.experts, ids);
    arrays.sequence_lengths = {tokens};
    const auto recorded = make_step(info_, std::move(arrays));
    Batch batch;
    std::int64_t first = 0;
    for (int r = 0; r < gpus_; ++r) {
      const std::int64_t count = tokens / gpus_ + (r < tokens % gpus_ ? 1 : 0);
      batch.ranks.push_back({{first, count}});
      first += count;
    }
    std::vector<SlotTable> slots;
    copies = migrated = 0;
    for (int l = 0; l < layers(); ++l) {
      const IdRows rows = recorded->ids(l);
      const LoadMatrix loads = count_loads(batch, rows, info_.experts);
      const LayerDecision decision = placer_->decide({step_, l, batch, rows, loads});
      slots.push_back(decision.assignment.placement().table());
      const auto counts =
          make_dispatch("dedup", topology_)->count({batch, rows, decision.assignment});
      copies += static_cast<std::int64_t>(counts.phases[0].total());
      for (const auto& move : decision.migrate) migrated += move.traffic.total().value;
      memory = decision.memory;
    }
    ++step_;
    return slots;
  }
  int layers() const { return static_cast<int>(info_.layers.size()); }

  std::int64_t copies = 0;           // of tokens in the last step, local ones included
  std::int64_t migrated = 0;         // bytes
  std::vector<ExpertMemory> memory;  // of the last layer

 private:
  Topology topology_;
  TraceInfo info_;
  int gpus_;
  MoeModel model_;
  std::unique_ptr<Placer> placer_;
  int step_ = 0;
};

/// {0, 2} ten times, {1, 3} eight times, {0, 1} once.
Picked oracle(int, int, int token) {
  if (token < 10) return {0, 2};
  return token < 18 ? Picked{1, 3} : Picked{0, 1};
}

TEST(AffinityProfileTest, SeesTheBatchAlone) {
  const std::vector<std::uint16_t> ids = {0, 1, 2, 3, 1, IdRows::dropped, 3, 0};
  const IdRows rows(ids.data(), 2, 2, 4);
  const Batch batch{0, {{{2, 2}}, {{0, 1}}}};
  const auto choices = batch_choices(batch, rows);
  EXPECT_THAT(choices, ElementsAre(1, -1, 3, 0, 0, 1));
  const PairMatrix pairs = co_choices_of(choices, 2, 4);
  EXPECT_EQ(total(pairs), 4);
  EXPECT_EQ(pairs.at(ExpertId(0), ExpertId(3)), 1);
  EXPECT_EQ(pairs.at(ExpertId(1), ExpertId(0)), 1);
}

TEST(AffinityProfileTest, CountsAsTheBalancersDo) {
  std::mt19937 random(1);
  const Tokens layer(2, 16, 4, 50, random_ids(random, 100, 16, 4), 2);
  const Tokens next(2, 16, 4, 50, random_ids(random, 100, 16, 4), 2);
  const auto choices = batch_choices(layer.batch, layer.step->ids(0));
  const auto after = batch_choices(next.batch, next.step->ids(0));
  EXPECT_EQ(co_choices_of(choices, 4, 16), co_choices(layer.step->ids(0), 16));
  EXPECT_EQ(transitions_between(choices, after, 4, 16),
            transitions(layer.step->ids(0), next.step->ids(0), 16));
}

TEST(OccultPlacementTest, CopiesFallAsInTheOracle) {
  Replay replay("{kind: occult, profile: 1, profiling: online}", 2, 4, 2, 1);
  EXPECT_EQ(replay.step(19, oracle)[0], table({{0, 1}, {2, 3}}));
  EXPECT_EQ(replay.copies, 37);
  EXPECT_EQ(replay.migrated, 0);
  EXPECT_EQ(replay.step(19, oracle)[0], table({{0, 2}, {1, 3}}));
  EXPECT_EQ(replay.copies, 20);
  EXPECT_EQ(replay.migrated, 2 * 3 * 128 * 8 * (2 + 12));  // experts 1 and 2 change places
}

TEST(OccultPlacementTest, DecidesOnceAfterItsProfile) {
  Replay replay("{kind: occult, profile: 2}", 2, 4, 2, 1);
  const auto swapped = [](int step, int, int token) {
    return step < 2 ? oracle(step, 0, token) : Picked{token % 4, (token + 1) % 4};
  };
  const SlotTable contiguous = table({{0, 1}, {2, 3}}), planned = table({{0, 2}, {1, 3}});
  for (const SlotTable& expected : {contiguous, contiguous, planned, planned, planned}) {
    EXPECT_EQ(replay.step(19, swapped)[0], expected);
  }
}

TEST(OccultPlacementTest, TheFirstSlotsOfAnOfflineProfileAreLoaded) {
  Replay replay("{kind: occult, profile: 1, interval: 1}", 2, 4, 2, 1);
  const auto changing = [](int step, int, int) { return step == 0 ? Picked{0, 2} : Picked{0, 3}; };
  replay.step(8, changing);
  EXPECT_EQ(replay.step(8, changing)[0], table({{0, 2}, {1, 3}}));
  EXPECT_EQ(replay.migrated, 0);
  EXPECT_EQ(replay.step(8, changing)[0], table({{0, 3}, {1, 2}}));
  EXPECT_EQ(replay.migrated, 2 * 3 * 128 * 8 * (2 + 12));
}

TEST(OccultPlacementTest, PlansAgainAtIntervalsFromItsWindow) {
  Replay replay("{kind: occult, profile: 1, interval: 1}", 2, 4, 2, 1);
  const auto alternating = [](int step, int, int) {
    return step % 2 == 0 ? Picked{0, 2} : Picked{0, 3};
  };
  replay.step(8, alternating);
  EXPECT_EQ(replay.step(8, alternating)[0], table({{0, 2}, {1, 3}}));
  EXPECT_EQ(replay.step(8, alternating)[0], table({{0, 3}, {1, 2}}));
  EXPECT_EQ(replay.step(8, alternating)[0], table({{0, 2}, {1, 3}}));
}

TEST(OccultPlacementTest, EveryRunHoldsTheSame) {
  Replay replay("{kind: occult, profile: 1}", 4, 4, 2, 1, 1, 2);
  replay.step(19, oracle);
  EXPECT_EQ(replay.step(19, oracle)[0], table({{0, 2}, {1, 3}, {0, 2}, {1, 3}}));
}

TEST(ExFlowPlacementTest, CutsNothingWhenEveryExpertHasOneSuccessor) {
  Replay replay("{kind: exflow, profile: 1}", 4, 8, 1, 3, 2);
  const auto chained = [](int, int layer, int token) {
    return Picked{(token * 3 + layer * 5) % 8};
  };
  replay.step(16, chained);
  const auto layers = replay.step(16, chained);
  for (int e = 0; e < 8; ++e) {
    const auto gpu = [&](int layer, int expert) {
      return owners_of(
          layers[static_cast<std::size_t>(layer)])[static_cast<std::size_t>(expert % 8)];
    };
    EXPECT_EQ(gpu(0, e), gpu(1, e + 5)) << e;
    EXPECT_EQ(gpu(1, e), gpu(2, e + 5)) << e;
  }
}

TEST(MoeTunerPlacementTest, BalancesLoadsAndKeepsTransitionsLocal) {
  Replay replay("{kind: moetuner, profile: 1}", 2, 4, 1, 2);
  // Loads 6, 2, 3, 5 in both layers; expert e is followed by 3 - e.
  const std::vector<int> of = {0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3};
  const auto routing = [&](int, int layer, int t) {
    const int e = of[static_cast<std::size_t>(t)];
    return Picked{layer == 0 ? e : 3 - e};
  };
  replay.step(16, routing);
  const auto layers = replay.step(16, routing);
  const auto first = owners_of(layers[0]), second = owners_of(layers[1]);
  EXPECT_EQ(first[0], first[1]);  // 6 + 2 = 3 + 5
  EXPECT_EQ(first[2], first[3]);
  EXPECT_NE(first[0], first[2]);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_EQ(first[e], second[3 - e]);
}

TEST(DynamicGroupingTest, ExpertsWithTheSamePartnersShareAGpuOrNode) {
  // Cliques of even and of odd experts.
  const auto cliques = [](int, int, int t) {
    const int a = t % 8;
    return Picked{a, (a + 2 + t / 8 % 3 * 2) % 8};
  };
  for (const std::string where : {"groups: per-gpu", "groups: per-node"}) {
    const bool nodes = where == "groups: per-node";
    Replay replay("{kind: dynamic-grouping, " + where + "}", nodes ? 4 : 2, 8, 2, 1, nodes ? 2 : 1);
    replay.step(48, cliques);
    const auto gpu_of = owners_of(replay.step(48, cliques)[0]);
    const int gpus = nodes ? 2 : 1;
    for (std::size_t e = 2; e < 8; ++e) {
      EXPECT_EQ(gpu_of[e].value / gpus, gpu_of[e - 2].value / gpus) << where << " " << e;
    }
    EXPECT_NE(gpu_of[0].value / gpus, gpu_of[1].value / gpus);
  }
}

// Two experts change their GPUs: 2 x 3 x 128 x 8 parameters of 2 + 12 bytes, or a seventh.
TEST(DynamicGroupingTest, CompressedExpertsMoveAndTakeFewerBytes) {
  const auto pairs = [](int, int, int t) { return t % 2 == 0 ? Picked{0, 2} : Picked{1, 3}; };
  std::int64_t whole = 0;
  for (const std::string ratio : {"1", "7"}) {
    Replay replay("{kind: dynamic-grouping, compression: " + ratio + "}", 2, 4, 2, 1);
    replay.step(16, pairs);
    EXPECT_EQ(replay.migrated, 0);
    replay.step(16, pairs);
    if (ratio == "1") {
      whole = replay.migrated;
      EXPECT_EQ(whole, 2 * 3 * 128 * 8 * (2 + 12));
      EXPECT_TRUE(replay.memory.empty());
      continue;
    }
    EXPECT_EQ(replay.migrated, whole / 7);
    ASSERT_EQ(replay.memory.size(), 2u);
    EXPECT_EQ(replay.memory[0].weights.value, std::llround(2 * 3 * 128 * 8 * 2 / 7.0));
    EXPECT_EQ(replay.memory[1].optimizer.value, std::llround(2 * 3 * 128 * 8 * 12 / 7.0));
  }
}

class AffinityPlacement : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, AffinityPlacement,
                         testing::Values("occult", "exflow", "moetuner", "dynamic-grouping"),
                         [](const auto& one) {
                           return one.param == "dynamic-grouping" ? "grouping" : one.param;
                         });

TEST_P(AffinityPlacement, SlotsDependOnEarlierStepsAlone) {
  const std::string placement = "{kind: " + GetParam() + ", first: 1, interval: 1, window: 1}";
  // Communities of two experts; from step `change` on, others.
  const auto routing = [](int change) {
    return [change](int step, int layer, int t) {
      const int a = t * t % 8, apart = step < change ? 4 : 2 + layer;
      return Picked{a, (a + apart) % 8};
    };
  };
  Replay one(placement, 4, 8, 2, 3, 2), other(placement, 4, 8, 2, 3, 2);
  bool differs = false;
  for (int step = 0; step < 5; ++step) {
    const auto a = one.step(64, routing(100)), b = other.step(64, routing(2));
    if (step <= 2) {
      EXPECT_EQ(a, b) << step;
    } else {
      differs = differs || a != b;
    }
    for (const SlotTable& layer : a) {
      EXPECT_EQ(owners_of(layer).size(), 8u);  // throws unless each has one slot
    }
  }
  EXPECT_TRUE(differs);
}

TEST_P(AffinityPlacement, UnequalSlotsAreUnsuitable) {
  if (GetParam() == "moetuner") {
    EXPECT_NO_THROW(Replay("moetuner", 4, 6, 1, 1));
  } else {
    EXPECT_THROW(Replay(GetParam(), 4, 6, 1, 1), Unsuitable);
  }
}

TEST(AffinityPlacementTest, RunsMustFitNodes) {
  EXPECT_NO_THROW(Replay("exflow", 8, 8, 1, 1, 2, 2));
  EXPECT_NO_THROW(Replay("exflow", 8, 8, 1, 1, 2, 8));
  EXPECT_THROW(Replay("exflow", 18, 6, 1, 1, 2, 6), Unsuitable);  // nodes of 9
}

}  // namespace
}  // namespace moesim
