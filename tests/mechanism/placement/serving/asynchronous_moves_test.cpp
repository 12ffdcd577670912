// SPDX-License-Identifier: Apache-2.0
// Weights that move behind steps: which slots a step uses, and what it moves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/moves.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

const std::string two_gpus = "{kind: eplb, slots_per_gpu: 3, migration: asynchronous";

TEST(AsynchronousMoves, UseNewSlotsInTheStepAfterTheirWeightsHaveCome) {
  ServingPlay play(two_gpus + "}", pair_of_gpus, 4);
  const Experts old = {{2, 0, 0}, {3, 1, 1}};
  EXPECT_EQ(experts_of(play.show_counts({2, 2, 2, 10})), old);
  const LayerDecision moving = play.show_counts({2, 2, 2, 10});
  EXPECT_TRUE(moving.planned);
  EXPECT_EQ(moving.migration, Migration::asynchronous);
  EXPECT_EQ(experts_of(moving), old);
  EXPECT_EQ(bytes(moving.migrate, 0, 1), expert);  // expert 0
  EXPECT_EQ(bytes(moving.migrate, 1, 0), expert);  // expert 3
  EXPECT_EQ(moving.memory[0].gathered, Bytes(expert));
  EXPECT_EQ(moving.memory[0].weights, Bytes(3 * expert));
  const LayerDecision moved = play.show_counts({2, 2, 2, 10});
  EXPECT_EQ(experts_of(moved), (Experts{{3, 3, 2}, {3, 0, 1}}));
  EXPECT_TRUE(moved.migrate.empty());
  EXPECT_EQ(moved.memory[0].gathered, Bytes(0));
}

/// [step] the layers that move in it, of three layers with the same loads.
std::vector<std::set<int>> moving_layers(const std::string& options) {
  ServingPlay play(two_gpus + ", interval: 100" + options + "}", pair_of_gpus, 4, 1, 3);
  std::vector<std::set<int>> steps;
  for (int step = 0; step < 5; ++step) {
    auto& layers = steps.emplace_back();
    for (int layer = 0; layer < 3; ++layer) {
      if (!play.show(ids_of({2, 2, 2, 10}), layer).migrate.empty()) layers.insert(layer);
    }
  }
  return steps;
}

TEST(AsynchronousMoves, TakeOneLayerAfterTheOther) {
  using Steps = std::vector<std::set<int>>;
  EXPECT_EQ(moving_layers(""), (Steps{{}, {0}, {1}, {2}, {}}));
  EXPECT_EQ(moving_layers(", layers_per_step: 2"), (Steps{{}, {0, 1}, {2}, {}, {}}));
  EXPECT_EQ(moving_layers(", layers_per_step: 9"), (Steps{{}, {0, 1, 2}, {}, {}, {}}));
}

/// [step] the layers that move in it, of three that have these loads in every step.
std::vector<std::set<int>> layers_by_step(const std::string& placement,
                                          const std::function<std::vector<int>(int, int)>& loads) {
  ServingPlay play(placement, four_gpus, 8, 1, 3);
  std::vector<std::set<int>> steps;
  for (int step = 0; step < 12; ++step) {
    auto& layers = steps.emplace_back();
    for (int layer = 0; layer < 3; ++layer) {
      const LayerDecision d = play.show(ids_of(loads(step, layer)), layer);
      if (!d.migrate.empty()) layers.insert(layer);
    }
  }
  return steps;
}

// vLLM Ascend: loads of two steps are collected, one is planned in, then each of three layers has a
// step, whether it changes or not. So a cycle takes six, and only its first two are seen.
TEST(AsynchronousMoves, CyclesSeeTheirFirstSteps) {
  const std::vector<int> even(8, 100), hot = {400, 300, 10, 10, 20, 20, 20, 20};
  const std::vector<std::set<int>> none(12);
  for (const std::string policy : {"swift-balancer", "flash-lb"}) {
    SCOPED_TRACE(policy);
    const std::string placement = "{kind: vllm, policy: " + policy +
                                  ", window: 2, lag: 2, slots_per_gpu: 2, migration: asynchronous}";
    for (int first : {0, 6}) {
      const auto moves = layers_by_step(placement, [&](int step, int layer) {
        return layer != 1 && step >= first && step < first + 2 ? hot : even;
      });
      auto expected = none;
      if (first == 0) expected[3] = {0}, expected[5] = {2};
      if (first == 6) expected[9] = {0}, expected[11] = {2};
      EXPECT_EQ(moves, expected) << first;
    }
    const auto unseen =
        layers_by_step(placement, [&](int step, int) { return step % 6 < 2 ? even : hot; });
    EXPECT_EQ(unseen, none);
  }
}

TEST(AsynchronousMoves, LoadsMayBeOldForAnyPlanner) {
  for (const std::string kind : {"eplb", "lplb", "vllm"}) {
    const std::string when = kind == "vllm" ? ", interval: 12" : ", first: 3, interval: 100";
    const std::string lplb = kind == "lplb" ? ", topology: ring" : ", slots_per_gpu: 3";
    for (const int lag : {1, 3}) {
      ServingPlay play(fmt::format("{{kind: {}, window: 1, lag: {}{}{}}}", kind, lag, when, lplb),
                       pair_of_gpus, 4);
      // After three steps only the first has hot experts: what is seen of it depends on the lag.
      for (int step = 0; step < 3; ++step) {
        play.show_counts(step == 0 ? std::vector{2, 2, 2, 10} : std::vector{4, 4, 4, 4});
      }
      const LayerDecision d = play.show_counts({4, 4, 4, 4});
      EXPECT_TRUE(d.planned) << kind;
      const auto table = experts_of(d);
      const auto copies = [&](int e) {
        std::int64_t count = 0;
        for (const auto& gpu : table) count += std::count(gpu.begin(), gpu.end(), e);
        return count;
      };
      if (kind == "lplb") continue;  // its copies are where its topology wants them
      EXPECT_EQ(copies(3), lag == 3 ? 3 : 1) << kind << " lag " << lag;
    }
  }
}

/// What GPUs hold, tracked from what moves only.
TEST(AsynchronousMoves, NoStepUsesAnExpertThatHasNotCome) {
  constexpr int experts = 16, layers = 2, most = 2;
  const std::vector<int> one_host(4);
  std::mt19937 random(3);
  ServingPlay play(
      "{kind: eplb, slots_per_gpu: 6, interval: 4, migration: asynchronous, experts_per_step: 2}",
      four_gpus, experts, 1, layers);
  std::map<int, SlotTable> used;
  std::map<std::pair<int, std::size_t>, std::int64_t> received;  // since the slots changed
  int changes = 0, in_parts = 0;
  for (int step = 0; step < 40; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<int> counts(experts);
      for (int t = 0; t < 64; ++t) ++counts[random() % (random() % experts + 1)];
      const LayerDecision d = play.show(ids_of(counts), layer);
      const SlotTable now = d.assignment.placement().table();
      if (used.count(layer) > 0 && now != used[layer]) {
        ++changes;
        std::vector<std::int64_t> needed(now.size());
        for (const WeightMove& move : weight_moves(used[layer], now, one_host))
          ++needed[move.to.index()];
        for (std::size_t g = 0; g < now.size(); ++g) {
          EXPECT_EQ((received[{layer, g}]), needed[g] * expert) << "step " << step;
          in_parts += needed[g] > most;
          received[{layer, g}] = 0;
        }
      }
      used[layer] = now;
      for (int to = 0; to < 4; ++to) {
        std::int64_t sum = 0;
        for (int from = 0; from < 4; ++from) sum += bytes(d.migrate, from, to);
        EXPECT_LE(sum, most * expert);
        received[{layer, static_cast<std::size_t>(to)}] += sum;
        EXPECT_EQ(d.memory[static_cast<std::size_t>(to)].gathered,
                  Bytes((received[{layer, static_cast<std::size_t>(to)}])));
      }
    }
  }
  EXPECT_GT(changes, 4);
  EXPECT_GT(in_parts, 0) << "no move took more than one step";
}

TEST(AsynchronousMoves, MoveAsManyBytesAsBlockingOnes) {
  const auto moved = [](const std::string& migration) {
    ServingPlay play("{kind: vllm, slots_per_gpu: 3, interval: 20, migration: " + migration + "}",
                     pair_of_gpus, 4);
    std::int64_t sum = 0;
    for (int step = 0; step < 19; ++step) {
      const LayerDecision d = play.show_counts({2, 2, 2, 10});
      sum += bytes(d.migrate, 0, 1) + bytes(d.migrate, 1, 0);
    }
    return sum;
  };
  EXPECT_GT(moved("blocks"), 0);
  EXPECT_EQ(moved("asynchronous"), moved("blocks"));
}

TEST(AsynchronousMoves, DoNotTakeStateFromExpertsThatLearn) {
  EXPECT_THROW(ServingPlay(two_gpus + ", payload: state}", pair_of_gpus, 4, 1, 1, true),
               Unsuitable);
  EXPECT_NO_THROW(ServingPlay(two_gpus + ", payload: state}", pair_of_gpus, 4));
  EXPECT_THROW(ServingPlay("{kind: eplb, layers_per_step: 2}", pair_of_gpus, 4), Error);
  EXPECT_THROW(ServingPlay("{kind: lazarus, migration: asynchronous}", pair_of_gpus, 4), Error);
}

}  // namespace
}  // namespace moesim
