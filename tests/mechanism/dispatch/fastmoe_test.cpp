// SPDX-License-Identifier: Apache-2.0
// FastMoE's exchanges, one for each local expert index.
#include <gtest/gtest.h>

#include "sim/mechanism/mechanisms.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

DispatchMaker read_fastmoe(const YamlMap& params);

namespace {

// Reference 2.4 and oracle 4.6: E/G exchanges, whose bytes between any two ranks add up to those of
// the flat collective.
TEST(FastMoe, OnRandomLayersExchangesExpertByExpert) {
  std::mt19937 random(31);
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    const RandomLayer layer(random);
    const int groups = layer.experts / layer.shape.ep;
    const Placement& placement = layer.tokens.assignment.placement();
    std::vector<PairCounts> expected(static_cast<std::size_t>(groups));
    PairCounts flat;
    for (int t = 0; t < layer.token_count(); ++t) {
      for (int k = 0; k < layer.top_k; ++k) {
        int local = 0;  // slots before it on its GPU
        for (int s = 0; s < layer.slot(t, k).value; ++s) {
          local += placement.gpu_of(SlotId(s)) == GpuId(layer.gpu(t, k)) ? 1 : 0;
        }
        ++expected[static_cast<std::size_t>(local % groups)][{layer.source(t), layer.gpu(t, k)}];
        ++flat[{layer.source(t), layer.gpu(t, k)}];
      }
    }
    const auto dispatch = layer.dispatch("fastmoe");
    ASSERT_EQ(dispatch->shape().size(), groups);
    ASSERT_NO_FATAL_FAILURE(expect_rows(*dispatch, layer, expected));
    const auto counts = dispatch->count(layer.tokens.view());
    PairCounts sum;
    for (std::size_t phase = 0; phase < counts.phases.size(); ++phase) {
      for (const auto& [pair, rows] : counted(counts, phase)) sum[pair] += rows;
    }
    ASSERT_EQ(sum, flat);
    if (trial % 30 == 0 && layer.per_rank > 0) {
      ASSERT_NO_THROW(prove(*dispatch, layer));
    }
  }
}

// Experts 0, 1 on rank 0 and 2, 3 on rank 1: {2, 3} of rank 0's token go one after the other.
TEST(FastMoe, TellsCountsOfLocalExpertsFirstAndExchangesInOrder) {
  const Tokens tokens(2, 4, 2, 1, {2, 3, 0, 3}, 2);
  MoeModel model;
  model.hidden = 8;
  model.experts = 4;
  model.top_k = 2;
  model.expert_ffn = 4;
  const Topology topology = bare_nodes(1, 2);
  const auto doc = YamlDocument::from_text("{host_wait: 10 us}", "test");
  const auto dispatch = read_fastmoe(doc->root().map())({topology, model, 2});
  const Plan plan = plan_of(*dispatch, tokens, model);
  std::vector<std::string> names;
  for (const Op& op : plan.ops) {
    const bool forward = op.key.pass == Pass::forward;
    if (forward && (op.exchange() != nullptr || op.label == "read-counts"))
      names.push_back(op.label);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"dispatch-counts", "read-counts", "dispatch-expert-0",
                                             "dispatch-expert-1", "combine-expert-1",
                                             "combine-expert-0"}));
  using Dense = std::vector<std::int64_t>;
  EXPECT_EQ(dense(*exchanges(plan, "dispatch-counts")[0]), (Dense{0, 16, 16, 0}));
  EXPECT_EQ(dense(*exchanges(plan, "dispatch-expert-0")[0]), (Dense{0, 16, 16, 0}));
  EXPECT_EQ(dense(*exchanges(plan, "dispatch-expert-1")[0]), (Dense{0, 16, 0, 16}));
}

}  // namespace
}  // namespace moesim
