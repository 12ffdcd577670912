// SPDX-License-Identifier: Apache-2.0
// The balancers of TensorRT-LLM, vLLM and SGLang as placements: updates in turn, choice of
// replicas.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

TEST(TrtLlmPlacement, PlacesLikeThePublishedCaseAndLoadsFromTheHost) {
  ServingPlay play(
      "{kind: trt-llm, slots_per_gpu: 2, updates_per_iteration: 1, host_bandwidth: 1 GB/s}",
      four_gpus, 6);
  const std::vector<int> counts = {100, 60, 50, 40, 30, 20};
  EXPECT_EQ(experts_of(play.show_counts(counts)), (Experts{{0, 1}, {1, 2}, {3, 4}, {4, 5}}));
  const LayerDecision next = play.show_counts(counts);
  EXPECT_EQ(experts_of(next), (Experts{{0, 1}, {0, 4}, {2, 5}, {3, 1}}));
  ASSERT_EQ(next.migrate.size(), 1u);
  EXPECT_EQ(next.migrate[0].traffic.off_diagonal(), Bytes(0));
  const std::vector<std::int64_t> filled = {0, 2, 2, 2};  // slots that change
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(next.migrate[0].loads[g].nanoseconds, filled[g] * expert) << "GPU " << g;
  }
  EXPECT_EQ(next.planning, Seconds(0));
  EXPECT_FALSE(next.planning_blocks);
  EXPECT_EQ(next.migration, Migration::overlapped);
}

TEST(TrtLlmPlacement, UpdatesLayersInRotation) {
  const auto changes = [](const std::string& more) {
    ServingPlay play("{kind: trt-llm, slots_per_gpu: 2" + more + "}", four_gpus, 6, 1, 2);
    std::string seen;
    for (int step = 0; step < 5; ++step) {
      for (int layer = 0; layer < 2; ++layer) {
        // Loads that want another placement every step.
        std::vector<int> counts(6, 8);
        counts[static_cast<std::size_t>(step)] = 1000;
        if (!play.show(ids_of(counts), layer).migrate.empty()) {
          seen += std::to_string(step) + char('a' + layer) + " ";
        }
      }
    }
    return seen;
  };
  EXPECT_EQ(changes(", decay: 0"), "");  // static
  // Two sets of one layer and an iteration without: 0, 1, none.
  EXPECT_EQ(changes(", decay: 0, updates_per_iteration: 1"), "1a 2b 4a ");
  EXPECT_EQ(changes(", decay: 0, updates_per_iteration: 1, warm_up: 2"), "3a 4b ");
}

TEST(TrtLlmPlacement, DealsReplicasOutInTurn) {
  ServingPlay play("{kind: trt-llm, slots_per_gpu: 1, offset: none}", four_gpus, 2);
  const LayerDecision d = play.show(std::vector<int>(16, 0));
  EXPECT_EQ(experts_of(d), (Experts{{0}, {0}, {1}, {1}}));
  EXPECT_EQ(served(d, play.loads()), (std::vector<std::int64_t>{8, 8, 0, 0}));
  EXPECT_EQ(d.assignment.slot(GpuId(1), ExpertId(0)), SlotId(0));
  ServingPlay shifted("{kind: trt-llm, slots_per_gpu: 1}", four_gpus, 2);
  EXPECT_EQ(shifted.show(std::vector<int>(16, 0)).assignment.slot(GpuId(1), ExpertId(0)),
            SlotId(1));
}

TEST(VllmPlacement, RebalancesAfterAQuarterAndKeepsSlots) {
  ServingPlay play("{kind: vllm, slots_per_gpu: 3, interval: 4}", pair_of_gpus, 4);
  EXPECT_EQ(experts_of(play.show_counts({2, 2, 2, 10})), (Experts{{0, 1, 2}, {3, 0, 1}}));
  const LayerDecision next = play.show_counts({16, 0, 0, 0});
  EXPECT_EQ(experts_of(next),
            (Experts{{3, 3, 2}, {3, 0, 1}}));  // EPLB's, 2 and 3 0 1 where they were
  for (int step = 2; step < 5; ++step) {
    EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(next));
  }
  EXPECT_NE(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(next));
}

TEST(VllmPlacement, PicksReplicasByThePlaceOfAChoice) {
  // Expert 0 is on both GPUs and always the first of two choices: always at even places.
  const std::vector<int> ids = {0, 2, 0, 3, 0, 2, 0, 3};
  ServingPlay place("{kind: vllm, slots_per_gpu: 3}", pair_of_gpus, 4, 2);
  const LayerDecision d = place.show(ids);
  EXPECT_EQ(experts_of(d), (Experts{{0, 1, 2}, {3, 0, 1}}));
  EXPECT_EQ(served(d, place.loads()), (std::vector<std::int64_t>{6, 2}));
  // Only by the token's index: 0 and 2654435769, even and odd.
  ServingPlay hash("{kind: vllm, slots_per_gpu: 3, rule: token-hash}", pair_of_gpus, 4, 2);
  const LayerDecision by_token = hash.show(ids);
  EXPECT_EQ(served(by_token, hash.loads()), (std::vector<std::int64_t>{4, 4}));
}

TEST(SglangPlacement, MovesLayersInChunksUnlessEvenlyUsed) {
  const auto moved = [](const std::string& more, const std::vector<int>& counts, int interval = 2) {
    ServingPlay play(
        "{kind: sglang, slots_per_gpu: 3, interval: " + std::to_string(interval) + more + "}",
        pair_of_gpus, 4, 1, 2);
    std::string seen;
    for (int step = 0; step < 5; ++step) {
      for (int layer = 0; layer < 2; ++layer) {
        const LayerDecision d = play.show(ids_of(counts), layer);
        if (!d.migrate.empty()) seen += std::to_string(step) + char('a' + layer) + " ";
      }
    }
    return seen;
  };
  EXPECT_EQ(moved("", {2, 2, 2, 10}), "2a 2b ");
  EXPECT_EQ(moved(", layers_per_chunk: 1", {2, 2, 2, 10}), "3a 4b ");
  EXPECT_EQ(moved(", layers_per_chunk: 1", {2, 2, 2, 10}, 1), "2a 3b ")
      << "an interval begins behind the last chunk";
  // 0 1 2 | 3 0 1 with 2 2 2 10: loads 4 and 12, utilisation 8 / 12.
  EXPECT_EQ(moved(", threshold: 0.6", {2, 2, 2, 10}), "");
  EXPECT_EQ(moved(", threshold: 0.7", {2, 2, 2, 10}), "2a 2b ");
}

TEST(SglangPlacement, PrefersTheOwnCopyOrDraws) {
  ServingPlay fixed("{kind: sglang, slots_per_gpu: 3}", pair_of_gpus, 4);
  const LayerDecision d = fixed.show(std::vector<int>(200, 0));  // 0 1 2 | 3 0 1
  EXPECT_EQ(served(d, fixed.loads()), (std::vector<std::int64_t>{100, 100}));
  EXPECT_EQ(d.assignment.slot(GpuId(0), ExpertId(0)), SlotId(0));
  EXPECT_EQ(d.assignment.slot(GpuId(1), ExpertId(0)), SlotId(4));
  EXPECT_FALSE(d.assignment.split());
  // 0 1 | 2 3 | 0 1 | 2 3: ranks 1 and 3 draw.
  ServingPlay drawn("{kind: sglang, slots_per_gpu: 2, replicas: dynamic}", four_gpus, 4);
  const LayerDecision random = drawn.show(std::vector<int>(400, 0));
  EXPECT_TRUE(random.assignment.split());
  const auto loads = served(random, drawn.loads());
  EXPECT_EQ(loads[0] + loads[2], 400);
  EXPECT_GT(std::min(loads[0], loads[2]), 160);
}

}  // namespace
}  // namespace moesim
