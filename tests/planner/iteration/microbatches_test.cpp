// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/microbatches.h"

#include <gtest/gtest.h>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

TEST(Microbatches, OfAShortTraceAreTheSameByTurns) {
  for (const int all : {1, 2, 3, 5, 8}) {
    for (const int recorded : {1, 2, 3, 4, 8, 11}) {
      Microbatches whole;
      whole.recorded.resize(static_cast<std::size_t>(recorded));
      whole.distinct = whole.per_iteration = all;
      Microbatches joined = whole;
      joined.join_equal();
      EXPECT_EQ(joined.distinct, std::min(all, recorded));
      for (int iteration = 0; iteration < 5; ++iteration) {
        for (int m = 0; m < all; ++m) {
          EXPECT_EQ(whole.index_of(iteration, m), joined.index_of(iteration, m % joined.distinct));
        }
      }
    }
  }
}

/// Microbatches that a policy plans, of 16 sequences on 4 replicas.
int planned(const std::string& policy, std::int64_t recorded_sequences) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, recorded_sequences * 512, 512);
  Spec options;
  options.spec.parallel = {.tp = 2, .pp = 2, .ep = 4, .etp = 1};
  options.spec.global_batch = 16;
  options.spec.sequence = 512;
  const Planner planner(test::policy(policy), topology, model, trace, options);
  EXPECT_EQ(planner.shape().microbatches, 4);
  return planner.microbatches().distinct;
}

TEST(Microbatches, ThatAreEqualArePlannedOnceIfNoPlanDependsOnTheOneBefore) {
  EXPECT_EQ(planned("megatron", 16), 4);
  EXPECT_EQ(planned("megatron", 8), 2);
  EXPECT_EQ(planned("dedup", 4), 1);
  EXPECT_EQ(planned("hecate", 8), 4) << "it plans from the loads of those before";
}

}  // namespace
}  // namespace moesim
