// SPDX-License-Identifier: Apache-2.0
// What holds for every balancer of a serving system, on skewed random routing of two layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <random>
#include <set>
#include <span>

#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

struct Kind {
  const char* text;
  const char* name;
  bool moves = true;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class AnyServingPlacement : public testing::TestWithParam<Kind> {
 protected:
  static constexpr int experts = 16, top_k = 3, layers = 2, steps = 6;
  static constexpr Shape shape{2, 4, 4};

  /// Skewed towards one expert, another for every seed.
  static std::vector<int> skewed(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> ids = random_ids(random, shape.ranks() * 40, experts, top_k);
    const int hot = static_cast<int>(seed * 5 % experts);
    for (std::size_t t = 0; t < ids.size(); t += top_k) {
      const auto of_token = std::span(ids).subspan(t, top_k);
      if (random() % 4 != 0 && std::find(of_token.begin(), of_token.end(), hot) == of_token.end()) {
        of_token[0] = hot;
      }
    }
    return ids;
  }
  static ServingPlay play(bool backward = false) {
    return ServingPlay(GetParam().text, shape, experts, top_k, layers, backward);
  }
};

TEST_P(AnyServingPlacement, ServesEveryChoiceInItsRun) {
  ServingPlay play = this->play();
  for (unsigned step = 0; step < steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerDecision d = play.show(skewed(step * 2 + static_cast<unsigned>(layer)), layer);
      const Placement& placement = d.assignment.placement();
      for (int e = 0; e < experts; ++e) {
        std::set<int> runs;
        for (const SlotId s : placement.slots_of(ExpertId(e))) {
          runs.insert(placement.gpu_of(s).value / shape.ep);
        }
        EXPECT_EQ(runs.size(), 2u) << "expert " << e;
        for (int rank = 0; rank < shape.ranks(); ++rank) {
          if (!d.assignment.split()) {
            EXPECT_EQ(d.assignment.gpu(GpuId(rank), ExpertId(e)).value / shape.ep, rank / shape.ep);
            continue;
          }
          for (const Share& share : d.assignment.shares(GpuId(rank), ExpertId(e))) {
            EXPECT_EQ(placement.gpu_of(share.slot).value / shape.ep, rank / shape.ep);
            EXPECT_EQ(placement.expert_in(share.slot), ExpertId(e));
          }
        }
      }
      const auto gpus = served(d, play.loads());
      EXPECT_EQ(std::accumulate(gpus.begin(), gpus.end(), std::int64_t{0}),
                shape.ranks() * 40 * top_k);
      ASSERT_EQ(d.memory.size(), 8u);
      const SlotTable now = placement.table();
      for (std::size_t g = 0; g < now.size(); ++g) {
        const ExpertMemory& m = d.memory[g];
        EXPECT_EQ(m.weights + m.gathered, Bytes(static_cast<std::int64_t>(now[g].size()) * expert));
        EXPECT_EQ(m.gradients + m.optimizer, Bytes(0));
      }
    }
  }
}

TEST_P(AnyServingPlacement, MovesWhatIsNewToAGpuOnce) {
  if (!GetParam().moves) GTEST_SKIP() << "slots are filled otherwise";
  ServingPlay play = this->play();
  SlotTable before;
  std::int64_t moved = 0;
  for (unsigned step = 0; step < steps; ++step) {
    const LayerDecision d = play.show(skewed(step));
    play.show(skewed(step + 50), 1);
    const SlotTable now = d.assignment.placement().table();
    for (std::size_t g = 0; g < now.size(); ++g) {
      std::set<ExpertId> fresh(now[g].begin(), now[g].end());
      if (!before.empty()) {
        for (const ExpertId e : before[g]) fresh.erase(e);
      }
      std::int64_t arrived = 0;
      for (int from = 0; from < shape.ranks(); ++from) {
        arrived += bytes(d.migrate, from, static_cast<int>(g));
      }
      if (!before.empty()) {
        EXPECT_EQ(arrived, static_cast<std::int64_t>(fresh.size()) * expert);
      }
      moved += arrived;
    }
    before = now;
  }
  EXPECT_GT(moved, 0);
}

TEST_P(AnyServingPlacement, SlotsFollowEarlierStepsAlone) {
  for (int perturbed = 0; perturbed < steps - 1; ++perturbed) {
    ServingPlay a = play(), b = play();
    bool later = false;
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < layers; ++layer) {
        const auto seed = static_cast<unsigned>(2 * step + layer);
        const auto ta = experts_of(a.show(skewed(seed), layer));
        const auto tb = experts_of(b.show(skewed(seed + (step == perturbed ? 7 : 0)), layer));
        if (step <= perturbed && !a.reacts()) {
          EXPECT_EQ(ta, tb) << "step " << step;
        }
        later = later || ta != tb;
      }
    }
    // Profiles of one step know nothing of later ones.
    EXPECT_TRUE(later || perturbed > 0);
  }
}

TEST_P(AnyServingPlacement, TrainsWithPlansThatHold) {
  ServingPlay play = this->play(true);
  for (unsigned step = 0; step < 3; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerDecision d = play.show(skewed(step), layer);
      ASSERT_EQ(d.memory.size(), 8u);
      Bytes optimizer;
      for (const ExpertMemory& m : d.memory) optimizer += m.optimizer;
      EXPECT_EQ(optimizer, Bytes(2 * experts * 10 * 12));  // every expert once per run
      // What weights come from home, gradients go back.
      for (int from = 0; from < shape.ranks(); ++from) {
        for (int to = 0; to < shape.ranks(); ++to) {
          EXPECT_EQ(bytes(d.gather, from, to), bytes(d.reduce, to, from));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AnyServingPlacement,
    testing::Values(
        Kind{"eplb", "eplb"},
        Kind{"{kind: eplb, slots_per_gpu: 6, replicas: node-first}", "eplb_node_first"},
        Kind{"{kind: eplb, slots_per_gpu: 6, replicas: fewest-activated}", "metro"},
        Kind{"{kind: lplb, topology: ring}", "lplb"},
        Kind{"{kind: trt-llm, updates_per_iteration: 1}", "trt_llm", false},
        Kind{"{kind: vllm, interval: 2, window: 2}", "vllm"},
        Kind{"{kind: vllm, policy: swift-balancer, interval: 1, window: 2, lag: 1}",
             "swift_balancer"},
        Kind{"{kind: vllm, policy: flash-lb, interval: 1, window: 2, lag: 1}", "flash_lb"},
        Kind{"{kind: sglang, interval: 1}", "sglang"},
        Kind{"{kind: sglang, interval: 2, replicas: dynamic, layers_per_chunk: 1}",
             "sglang_chunks"},
        Kind{"{kind: llep, least_chunk: 1}", "llep", false},
        Kind{"{kind: moon-ep, received: regather}", "moon_ep", false},
        Kind{"{kind: echo, received: regather}", "echo", false},
        Kind{"{kind: echo, slots: 2, received: regather}", "echo_two", false},
        Kind{"{kind: ultra-ep, least_rows: 1, received: regather}", "ultra_ep", false},
        Kind{"{kind: feplb, dynamic: 1}", "feplb", false},
        Kind{"{kind: probe, received: regather}", "probe", false},
        Kind{"{kind: probe, predictor: step, slots: 1}", "probe_step", false},
        Kind{"{kind: free-balance, swaps: 2}", "free_balance", false},
        Kind{"predictive-replication", "predictive"},
        Kind{"{kind: predictive-replication, predictor: adjacent, extra_slots: 2}", "adjacent"},
        Kind{"{kind: lazarus, interval: 1, first: 1, window: 3, payload: weights}", "lazarus"},
        Kind{"{kind: craft, budget: 0.5}", "craft", false}, Kind{"grace", "grace", false},
        Kind{"{kind: grace, profiling: online}", "grace_online"}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace moesim
