// SPDX-License-Identifier: Apache-2.0
// Who waits for experts that change their places: two layers on two GPUs. What a policy without
// its placement is, by which its twin is found that never migrates.
#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "sim/planner/system.h"
#include "tests/mechanism/random_layers.h"
#include "tests/planner/schedule/sequential.h"

namespace moesim {
namespace {

/// The layers of which a kernel waits for the migration of the second layer.
std::set<int> waiting_layers(Migration migration) {
  Plan plan;
  plan.gpus = 2;
  MoeModel model;
  model.hidden = 128;
  model.experts = 4;
  model.top_k = 2;
  model.expert_ffn = 8;
  const Tokens tokens{2, 4, 2, 1, {2, 3, 0, 3}, 2};
  const Topology& topology = topology_of({1, 2, 2});
  const auto dispatch = make_dispatch("alltoall", topology, 2, model);
  std::vector<LayerWork> layers;
  for (int number = 1; number <= 2; ++number) {
    LayerDecision decision(tokens.assignment);
    decision.migration = migration;
    const std::int64_t bytes[] = {0, 64, 64, 0};
    if (number == 2) decision.migrate = {{"migrate", ByteMatrix::from_dense(2, bytes), {}, {}}};
    LayerWork& work = layers.emplace_back(std::move(decision));
    work.number = number;
    work.tokens_per_rank = {1, 1};
    work.dispatch = dispatch.get();
    work.counts = dispatch->count(tokens.view());
  }
  StepOps step(plan, model, layers);
  issue_sequentially(step.ops, false);
  std::set<int> waiting;
  for (const Op& op : plan.ops) {
    for (const OpId id : op.after) {
      if (plan[id].label.text() == "migrate") waiting.insert(op.key.layer);
    }
  }
  return waiting;
}

TEST(MigrationTest, AllLayersOrItsOwnOrNoneWait) {
  EXPECT_EQ(waiting_layers(Migration::blocks), (std::set<int>{1, 2}));
  EXPECT_EQ(waiting_layers(Migration::overlapped), (std::set<int>{2}));
  EXPECT_EQ(waiting_layers(Migration::asynchronous), (std::set<int>{}));
}

TEST(PolicyButPlacement, IsItsTransportAndItsOtherKinds) {
  const auto of = [](const std::string& kinds) {
    return parse_system("name: test\nsource: test\n" + kinds, "test").but_placement;
  };
  const std::string all = "placement: contiguous\ndispatch: alltoall\nschedule: sequential\n";
  const std::string plain = of("routing: identity\n" + all);
  EXPECT_NE(plain.find("sequential"), std::string::npos);
  EXPECT_EQ(of("routing: {kind: identity}\n" + all), plain);
  EXPECT_NE(of("routing: identity\ntransport: deepep\n" + all), plain);
  EXPECT_NE(of("routing: {kind: capacity, factor: 1}\n" + all), plain);
}

TEST(PolicyKinds, AnUnknownOneIsOneMistake) {
  try {
    parse_system(
        "name: test\nsource: test\nrouting: identity\n"
        "placement: {kind: nowhere, period: 3}\ndispatch: alltoall\nschedule: sequential\n",
        "test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u) << error.what();
  }
}

}  // namespace
}  // namespace moesim
