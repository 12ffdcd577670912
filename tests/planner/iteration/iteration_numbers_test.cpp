// SPDX-License-Identifier: Apache-2.0
// What placements are told of the iterations that they plan: their numbers, microbatches and loads.
#include <gmock/gmock.h>

#include <numeric>
#include <tuple>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

using testing::ElementsAre;

/// What one placement was told.
struct Told {
  int first = 0, steps = 0;
  std::vector<std::tuple<int, bool>> decisions;  // step, begins
  std::vector<std::size_t> microbatches;         // that recorded() has
  bool same_loads = true;                        // recorded() has what decisions get
};

class Listens final : public Placer {
 public:
  Listens(const PlacementContext& context, Told& told) : context_(context), told_(told) {
    told_.first = context.first_step;
    told_.steps = context.steps;
  }
  LayerDecision decide(const LayerRoutingNow& now) override {
    const auto loads = context_.recorded(now.step, now.layer);
    if (now.layer == 0) {
      told_.decisions.emplace_back(now.step, now.begins_iteration);
      told_.microbatches.push_back(loads.size());
    }
    told_.same_loads = told_.same_loads && std::ranges::find(loads, now.loads) != loads.end();
    const int ranks = context_.groups.size();
    return LayerDecision(Assignment(contiguous_placement(context_.experts, ranks, ranks), ranks));
  }

 private:
  PlacementContext context_;
  Told& told_;
};

TEST(IterationNumbers, AreThoseOfTheQuestion) {
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::whole(3);
  Spec o;
  o.spec.parallel = {.tp = 1, .pp = 1, .ep = 8, .etp = 1};
  o.spec.global_batch = 16;  // two microbatches
  o.spec.sequence = 64;
  o.first = 5;
  o.count = 2;
  const RoutingTrace trace = test::tokens_for(model, 7 * 16 * 64, 64);
  SystemSpec system = test::policy("alltoall");
  Told told;
  system.placement.make = [&](const PlacementContext& context) {
    return std::make_unique<Listens>(context, told);
  };
  Planner planner(system, topology, model, trace, o);
  planner.warm_up(4);
  planner.plan(5);
  planner.plan(6);
  EXPECT_EQ(told.first, 5);
  EXPECT_EQ(told.steps, 2);
  EXPECT_THAT(told.decisions,
              ElementsAre(std::tuple(4, true), std::tuple(4, false), std::tuple(5, true),
                          std::tuple(5, false), std::tuple(6, true), std::tuple(6, false)));
  EXPECT_THAT(told.microbatches, testing::Each(2));
  EXPECT_TRUE(told.same_loads);
}

}  // namespace
}  // namespace moesim
