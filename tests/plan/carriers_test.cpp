// SPDX-License-Identifier: Apache-2.0
// What carries each exchange of a plan, and which exchanges are one kernel.
#include <gtest/gtest.h>

#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

Op carried_op(OpKind kind, Stage stage, Stream stream = Stream::ep, int layer = 0, int part = 0) {
  Op op = exchange("x", {0, 1}, matrix(2, 1, {}));
  op.key = {.kind = kind, .stage = stage, .layer = layer, .part = part};
  op.stream = stream;
  return op;
}

Op phase_of(Stage stage, int layer, int part) {
  return carried_op(OpKind::token_exchange, stage, Stream::ep, layer, part);
}

Plan carried_plan(std::vector<Op> ops, bool fused, TransportPtr combine = nullptr) {
  Transport tokens;
  tokens.fused = fused;
  tokens.combine = std::move(combine);
  Plan plan{"carried", 2, std::move(ops)};
  plan.transports.tokens = std::make_shared<const Transport>(std::move(tokens));
  return plan;
}

/// A dispatch of two phases with other ops between them, a combine, and two further dispatches.
std::vector<Op> phases_among_others() {
  Op host = kernel("minimum", 0);
  host.key = {.kind = OpKind::token_exchange, .stage = Stage::dispatch, .layer = 0};
  return {phase_of(Stage::dispatch, 0, 0),
          std::move(host),
          carried_op(OpKind::side_exchange, Stage::dispatch),
          phase_of(Stage::dispatch, 0, 1),
          phase_of(Stage::combine, 0, 0),
          phase_of(Stage::dispatch, 1, 0),
          phase_of(Stage::dispatch, 0, 256)};  // of the next chunk of tokens
}

TEST(FusedKernels, AreThePhasesOfADispatchOrCombine) {
  const Plan plan = carried_plan(phases_among_others(), true);
  const std::vector<std::vector<OpId>> expected = {ids<OpId>({0, 3}), ids<OpId>({4}),
                                                   ids<OpId>({5}), ids<OpId>({6})};
  EXPECT_EQ(fused_kernels(plan), expected);
}

TEST(FusedKernels, ThereAreNoneWithoutATransportThatFuses) {
  EXPECT_TRUE(fused_kernels(carried_plan(phases_among_others(), false)).empty());
  EXPECT_TRUE(fused_kernels({"ideal", 2, phases_among_others()}).empty());
}

TEST(Carriers, GoOnWithTheKernelThatTheFirstPhaseStarted) {
  const Plan plan = carried_plan(phases_among_others(), true);
  std::vector<bool> goes_on;
  for (const Carrier& carrier : carriers_of(plan)) goes_on.push_back(carrier.goes_on);
  EXPECT_EQ(goes_on, (std::vector<bool>{false, false, false, true, false, false, false}));
}

TEST(Carriers, TakeTokensThereAndBackAndTheRestByOthers) {
  const auto back = std::make_shared<const Transport>();
  Op outward_again = phase_of(Stage::combine, 0, 0), returning = phase_of(Stage::dispatch, 0, 0);
  outward_again.key.pass = returning.key.pass = Pass::backward;
  Plan plan = carried_plan(
      {kernel("k", 0), phase_of(Stage::dispatch, 0, 0), phase_of(Stage::combine, 0, 0),
       outward_again, returning, carried_op(OpKind::token_exchange, Stage::dispatch, Stream::ep_2),
       carried_op(OpKind::parameter_exchange, Stage::gather, Stream::param)},
      false, back);
  plan.transports.others = std::make_shared<const Transport>();
  const Transport* there = plan.transports.tokens.get();
  std::vector<const Transport*> carriers;
  for (const Carrier& carrier : carriers_of(plan)) carriers.push_back(carrier.transport);
  EXPECT_EQ(carriers, (std::vector<const Transport*>{nullptr, there, back.get(), there, back.get(),
                                                     there, plan.transports.others.get()}));
}

TEST(Carriers, AreIdealWithoutTransports) {
  const Plan plan{"ideal", 2, phases_among_others()};
  EXPECT_EQ(carriers_of(plan), std::vector<Carrier>(plan.ops.size()));
}

}  // namespace
}  // namespace moesim
