// SPDX-License-Identifier: Apache-2.0
// What docs/adding-a-dispatch.md and docs/adding-a-placement.md print does what they say.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/placement/play.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

DispatchMaker read_leader(const YamlMap& params);
PlacementMaker read_serpentine(const YamlMap& params);

namespace {

/// Rows through the first GPU of the target's node, one per token and node, then one per GPU.
std::vector<PairCounts> through_leaders(const RandomLayer& layer) {
  std::vector<PairCounts> expected(2);
  const int node = layer.shape.gpus;
  for (int t = 0; t < layer.token_count(); ++t) {
    std::set<int> leaders, targets;
    for (int k = 0; k < layer.top_k; ++k) targets.insert(layer.gpu(t, k));
    for (const int to : targets) {
      const int group = to / layer.shape.ep * layer.shape.ep;  // nodes may hold several EP groups
      const int leader = std::max(group, to / node * node);
      if (leaders.insert(leader).second) ++expected[0][{layer.source(t), leader}];
      ++expected[1][{leader, to}];
    }
  }
  return expected;
}

TEST(PrintedExamples, TheDispatchGoesThroughLeadersAndDelivers) {
  const auto doc = YamlDocument::from_text("{}", "test");
  const DispatchMaker make = read_leader(doc->root().map());
  std::mt19937 random(71);
  int proved = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const RandomLayer layer(random);
    const DispatchContext context(layer.topology(), layer.model, layer.shape.ep);
    if (layer.shape.ep <= layer.shape.gpus) {
      EXPECT_THROW(make(context), Unsuitable);
      continue;
    }
    const auto dispatch = make(context);
    ASSERT_NO_FATAL_FAILURE(expect_rows(*dispatch, layer, through_leaders(layer)));
    if (trial % 10 == 0 && layer.per_rank > 0) {
      ASSERT_NO_THROW(prove(*dispatch, layer));
      ++proved;
    }
  }
  EXPECT_GT(proved, 5);
}

TEST(PrintedExamples, ThePlacementDealsOutByTheLoadsOfTheStepBefore) {
  MoeModel model;
  model.hidden = 8;
  model.experts = 6;
  model.top_k = 1;
  model.expert_ffn = 4;
  const auto doc = YamlDocument::from_text("{}", "test");
  const Topology topology = bare_nodes(2, 2);
  PlacementContext context{EpGroups(topology, 2), model, 6, 1, true, {}, 0, 0, {}};
  const auto placer = read_serpentine(doc->root().map())(context);
  const auto show = [&](const std::vector<int>& ids) {
    const Tokens tokens(4, 6, 1, static_cast<std::int64_t>(ids.size()) / 4, ids, 1);
    const LoadMatrix loads = count_loads(tokens.batch, tokens.step->ids(0), 6);
    return placer->decide({0, 0, tokens.batch, tokens.step->ids(0), loads});
  };
  // Ranks 0 and 1 of the first EP group choose 5 and 4 most, those of the second 0 and 1.
  const std::vector<int> ids = {5, 5, 5, 4, 4, 3, 0, 0, 0, 1, 1, 2};
  EXPECT_EQ(experts_of(show(ids)), (Experts{{0, 3, 4}, {1, 2, 5}, {0, 3, 4}, {1, 2, 5}}));
  const LayerDecision next = show(ids);
  EXPECT_EQ(experts_of(next), (Experts{{5, 0, 1}, {4, 3, 2}, {0, 3, 4}, {1, 2, 5}}));
  EXPECT_TRUE(next.planned);
  // Only the first EP group changes, and fetches what it lacks.
  ASSERT_EQ(next.migrate.size(), 1u);
  EXPECT_GT(next.migrate[0].traffic.off_diagonal(), Bytes(0));
}

}  // namespace
}  // namespace moesim
