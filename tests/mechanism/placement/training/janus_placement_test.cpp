// SPDX-License-Identifier: Apache-2.0
// Janus as a placement: tokens or experts, whichever are fewer bytes across nodes.
#include <gtest/gtest.h>

#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

/// Four experts that every token may choose, T tokens on each rank: tokens bring 4 x 16 B x T x 4
/// ranks x 1/2 across nodes, experts 4 x 2 x 288 B. So they are equal at T = 18.
std::vector<int> spread_tokens(int per_rank) {
  std::vector<int> ids;
  for (int t = 0; t < 4 * per_rank; ++t) ids.push_back(t % 4);
  return ids;
}

TEST(Janus, MovesWhatIsFewerBytesAcrossNodes) {
  TrainingPlay play("janus", toy_model(4, 1));
  EXPECT_TRUE(play.show(spread_tokens(18)).gather.empty());
  const LayerDecision data = play.show(spread_tokens(19));
  EXPECT_EQ(experts_of(data).at(3).size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(data.assignment.gpu(GpuId(rank), ExpertId(e)), GpuId(rank));
    }
  }
  EXPECT_FALSE(play.reacts());
}

// Without a backward pass choices travel half as often, and no gradients return.
TEST(Janus, ComparesWhatAForwardPassMoves) {
  TrainingPlay play("janus", toy_model(4, 1), 4, 1, false);
  EXPECT_TRUE(play.show(spread_tokens(18)).gather.empty());
  EXPECT_FALSE(play.show(spread_tokens(19)).gather.empty());
}

TEST(Janus, FetchesOncePerNodeThenInside) {
  TrainingPlay play("{kind: janus, centric: data}", toy_model(4, 1));
  const LayerDecision data = play.show(spread_tokens(1));
  // Experts 0 and 1 go to GPUs 2 and 3, experts 2 and 3 to GPUs 0 and 1; then to the neighbours.
  EXPECT_EQ(flows_of(data.gather),
            (std::vector<Flows>{{{{0, 1}, 288},
                                 {{0, 2}, 288},
                                 {{1, 0}, 288},
                                 {{1, 3}, 288},
                                 {{2, 0}, 288},
                                 {{2, 3}, 288},
                                 {{3, 1}, 288},
                                 {{3, 2}, 288}},
                                {{{0, 1}, 288}, {{1, 0}, 288}, {{2, 3}, 288}, {{3, 2}, 288}}}));
  const auto back = flows_of(data.reduce);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].size(), 4u);
  EXPECT_EQ(back[1].size(), 8u);
}

TEST(Janus, AfterTheGateFetchesWhatIsNeeded) {
  TrainingPlay play("{kind: janus, fetch: needed}", toy_model(4, 1));
  EXPECT_TRUE(play.reacts());
  // Only GPU 0 needs expert 3, and that much.
  const LayerDecision data =
      play.show_loads({{0, 0, 0, 40}, {0, 40, 0, 0}, {0, 0, 40, 0}, {0, 0, 0, 40}});
  EXPECT_EQ(experts_of(data), (Experts{{0, 3}, {1}, {2}, {3}}));
  EXPECT_EQ(flows_of(data.gather), (std::vector<Flows>{{{{3, 0}, 288}}}));
  EXPECT_EQ(flows_of(data.reduce), (std::vector<Flows>{{{{0, 3}, 288}}}));
  EXPECT_TRUE(data.after_gate);
}

}  // namespace
}  // namespace moesim
