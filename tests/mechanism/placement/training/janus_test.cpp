// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/janus.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

const SlotTable one_each = slots({{0}, {1}, {2}, {3}});
const JanusSizes sizes{Bytes(10), Bytes(1000), Bytes(500)};

TEST(JanusTest, CountsBothWays) {
  // Two nodes of two GPUs; expert 0 is wanted everywhere, expert 3 only by GPU 3.
  const LoadMatrix loads = loads_of({{5, 0, 0, 0}, {6, 1, 0, 0}, {7, 0, 2, 0}, {8, 0, 0, 9}});
  const JanusLayer layer = janus_layer(loads, one_each, 2, sizes);
  // Choices leave their GPU only for expert 0: 6 inside the node, 15 across.
  EXPECT_EQ(layer.expert_centric_bytes, (JanusBytes{Bytes(4 * 150), Bytes(4 * 210)}));
  EXPECT_EQ(layer.fetches,
            (std::vector<ExpertTransfer>{{ExpertId(0), GpuId(0), GpuId(1), Bytes(1000)},
                                         {ExpertId(0), GpuId(0), GpuId(2), Bytes(1000)},
                                         {ExpertId(0), GpuId(2), GpuId(3), Bytes(1000)}}));
  EXPECT_EQ(layer.gradients,
            (std::vector<ExpertTransfer>{{ExpertId(0), GpuId(3), GpuId(2), Bytes(500)},
                                         {ExpertId(0), GpuId(2), GpuId(0), Bytes(500)},
                                         {ExpertId(0), GpuId(1), GpuId(0), Bytes(500)}}));
  EXPECT_EQ(layer.data_centric_bytes, (JanusBytes{Bytes(1500), Bytes(4500)}));
  EXPECT_FALSE(layer.data_centric);
}

TEST(JanusTest, MovesTheSmaller) {
  // 4 x 10 bytes a choice against 1500 across nodes: equal at 37.5 choices.
  const auto data_centric = [](std::int64_t choices) {
    const LoadMatrix loads =
        loads_of({{0, 0, 0, 0}, {0, 0, 0, 0}, {choices, 0, 0, 0}, {0, 0, 0, 0}});
    return janus_layer(loads, one_each, 2, sizes).data_centric;
  };
  EXPECT_FALSE(data_centric(37));
  EXPECT_TRUE(data_centric(38));
}

TEST(JanusTest, TiesMoveTokens) {
  const LoadMatrix loads = loads_of({{0, 0}, {25, 0}});
  const JanusSizes equal{Bytes(10), Bytes(600), Bytes(400)};
  EXPECT_FALSE(janus_layer(loads, slots({{0}, {1}}), 1, equal).data_centric);
  EXPECT_FALSE(janus_layer(LoadMatrix(2, 2), slots({{0}, {1}}), 1, sizes).data_centric);
}

TEST(JanusTest, OneNodeComparesWhatLeavesGpus) {
  const JanusLayer layer = janus_layer(loads_of({{0, 0}, {40, 0}}), slots({{0}, {1}}), 2, sizes);
  EXPECT_EQ(layer.expert_centric_bytes, (JanusBytes{Bytes(0), Bytes(1600)}));
  EXPECT_EQ(layer.data_centric_bytes, (JanusBytes{Bytes(0), Bytes(1500)}));
  EXPECT_TRUE(layer.data_centric);
}

/// Whatever the loads: each expert reaches exactly the GPUs that choose it, once, from a GPU that
/// has it, and each foreign node once from outside.
TEST(JanusTest, FetchesReachWhoNeedsThem) {
  std::mt19937 random(4);
  for (int round = 0; round < 50; ++round) {
    LoadMatrix loads(12, 24);
    for (int s = 0; s < 12; ++s) {
      for (int e = 0; e < 24; ++e) {
        loads.at(GpuId(s), ExpertId(e)) = random() % 3 == 0 ? 1 : 0;
      }
    }
    const SlotTable table = contiguous_placement(24, 12, 12).table();
    const std::vector<GpuId> owners = owners_of(table);
    const JanusLayer layer = janus_layer(loads, table, 4, sizes);
    std::map<ExpertId, std::set<GpuId>> holders;
    std::set<std::pair<ExpertId, int>> entered;
    for (int e = 0; e < 24; ++e) holders[ExpertId(e)].insert(owners[static_cast<std::size_t>(e)]);
    for (const ExpertTransfer& t : layer.fetches) {
      EXPECT_TRUE(holders[t.expert].contains(t.from));
      EXPECT_TRUE(holders[t.expert].insert(t.to).second);
      if (t.from.value / 4 != t.to.value / 4) {
        EXPECT_TRUE(entered.insert({t.expert, t.to.value / 4}).second);
        EXPECT_EQ(t.from, owners[t.expert.index()]);
      }
    }
    for (int s = 0; s < 12; ++s) {
      for (int e = 0; e < 24; ++e) {
        const bool owns = owners[static_cast<std::size_t>(e)] == GpuId(s);
        EXPECT_EQ(holders[ExpertId(e)].contains(GpuId(s)),
                  owns || loads.at(GpuId(s), ExpertId(e)) > 0);
      }
    }
    EXPECT_EQ(off_gpu(layer.fetches) + off_gpu(layer.gradients), layer.data_centric_bytes.off_gpu);
  }
}

TEST(JanusTest, GpusOfANodeTakeTurnsAtFetching) {
  const LoadMatrix loads = loads_of({{0, 0}, {0, 0}, {1, 1}, {1, 1}});
  const JanusLayer layer = janus_layer(loads, slots({{0}, {1}, {}, {}}), 2, sizes);
  ASSERT_EQ(layer.fetches.size(), 4u);
  EXPECT_EQ(layer.fetches[0].to, GpuId(2));
  EXPECT_EQ(layer.fetches[2].to, GpuId(3));
}

TEST(JanusTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(janus_layer(LoadMatrix(4, 4), one_each, 3, sizes), Error);
  EXPECT_THROW(janus_layer(LoadMatrix(4, 4), one_each, 0, sizes), Error);
  EXPECT_THROW(janus_layer(LoadMatrix(2, 4), one_each, 2, sizes), Error);
}

}  // namespace
}  // namespace moesim
