// SPDX-License-Identifier: Apache-2.0
// Closed forms of hosts that issue plans.
#include "sim/plan/simulate/host_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/transport/transport.h"
#include "tests/plan/host_case.h"

namespace moesim {
namespace {

using namespace test;

TEST(HostProgram, AChainTakesTheLongerOfBothForEachKernel) {
  HostCase c;
  for (int i = 0; i < 100; ++i) c.kernel(0, kernel_of(10));
  EXPECT_NEAR(c.makespan_ms(host_of(0)), 1000, 1e-9);
  EXPECT_NEAR(c.makespan_ms(host_of(4)), 1000 + 4, 1e-9);        // the first one's launch
  EXPECT_NEAR(c.makespan_ms(host_of(25)), 100 * 25 + 10, 1e-9);  // the last one's work
}

TEST(HostProgram, RunsAheadWhileTheGpuIsBusyOrWaits) {
  HostCase c;
  const OpId late = c.kernel(1, kernel_of(500));
  const OpId exchange = c.exchange({late});
  for (int i = 0; i < 20; ++i) {
    c.kernel(0, kernel_of(10), OpKind::other,
             i == 0 ? std::vector<OpId>{exchange} : std::vector<OpId>());
  }
  // All 20 are issued when the exchange ends, at 25 + 500 + 30 ms.
  EXPECT_NEAR(c.makespan_ms(host_of(25), 30), 25 + 500 + 30 + 200, 1e-9);
}

TEST(HostProgram, WaitsForTheGpuWhereItReadsSomething) {
  HostCase c;
  c.kernel(0, kernel_of(500));
  c.kernel(0, HostWork{7'000'000}, OpKind::host_read);
  const OpId exchange = c.exchange({}, Stream::dp);
  for (int i = 0; i < 4; ++i) c.kernel(0, kernel_of(10));
  // From 500 + 7 ms on all is issued anew, what is on another stream and waits for nothing, too.
  const Timeline timeline = c.run(host_of(25, 40), 1);
  EXPECT_NEAR(timeline.ops[exchange.index()][0].start.value, 0.025 + 0.507 + 0.040, 1e-12);
  EXPECT_NEAR(timeline.ops[exchange.index()][1].start.value, 0.040, 1e-12);
  EXPECT_NEAR(timeline.makespan.value, 0.025 + 0.507 + 0.040 + 4 * 0.025 + 0.010, 1e-12);
}

TEST(HostProgram, WaitsForTheOpsThatItIsToldTo) {
  HostCase c;
  c.exchange({}, Stream::pp_down, OpKind::stage_transfer);
  c.kernel(0, kernel_of(10));
  HostModel host = host_of(25);
  EXPECT_NEAR(c.makespan_ms(host, 100), 100, 1e-9);
  host.waits_for = {OpKind::stage_transfer};
  EXPECT_NEAR(c.makespan_ms(host, 100), 100 + 25 + 10, 1e-9);
}

TEST(HostProgram, LaunchesAGraphOnceForWhatFollowsEachOther) {
  HostCase c;
  for (int layer = 0; layer < 3; ++layer) {
    for (int i = 0; i < 5; ++i) {
      c.kernel(0, kernel_of(1), OpKind::attention_output, {}, layer);
    }
  }
  HostModel host = host_of(25);
  host.per_graph = test::milliseconds(40);
  EXPECT_NEAR(c.makespan_ms(host), 15 * 25 + 1, 1e-9);
  host.graphs = {GraphModule::attn};
  EXPECT_NEAR(c.makespan_ms(host), 3 * 40 + 5, 1e-9);
  host.graphs = {GraphModule::full_iteration};
  EXPECT_NEAR(c.makespan_ms(host), 40 + 15, 1e-9);
  c.kernel(0, kernel_of(1), OpKind::fc1, {}, 2);
  c.kernel(0, kernel_of(1), OpKind::attention_output, {}, 2);
  host.graphs = {GraphModule::attn};
  EXPECT_NEAR(c.makespan_ms(host), 3 * 40 + 25 + 40 + 1, 1e-9);  // a graph, a launch, a graph
}

TEST(HostProgram, CannotWaitForAnOpInsideAGraph) {
  HostCase c;
  c.kernel(0, HostWork{7'000'000}, OpKind::host_read, {}, 3);
  c.exchange({}, Stream::pp_down, OpKind::stage_transfer);
  const auto refusal = [&](GraphModules graphs, std::vector<OpKind> waits_for = {}) {
    HostModel host = host_of(25);
    host.graphs = graphs;
    host.waits_for = std::move(waits_for);
    try {
      c.run(host);
    } catch (const Unsuitable& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using enum GraphModule;
  for (const GraphModule module : {full_iteration, moe}) {
    EXPECT_THAT(refusal({module}), testing::AllOf(testing::HasSubstr("host.graphs"),
                                                  testing::HasSubstr("'k' of layer 3"),
                                                  testing::HasSubstr("host_wait: 0 us")));
  }
  EXPECT_EQ(refusal({attn, moe_router, moe_preprocess}), "");
  EXPECT_EQ(refusal({attn}, {OpKind::stage_transfer}), "");
  c.plan.ops.erase(c.plan.ops.begin());
  EXPECT_EQ(refusal({full_iteration}), "");
  EXPECT_THAT(refusal({full_iteration}, {OpKind::stage_transfer}),
              testing::HasSubstr("host.waits_for: []"));
}

TEST(HostProgram, CapturesNormsAndTensorExchangesWithTheirBlocks) {
  HostCase c;
  c.kernel(0, kernel_of(1), OpKind::norm);
  c.kernel(0, kernel_of(1), OpKind::attention_output);
  c.exchange({}, Stream::tp, OpKind::tensor_exchange);
  OpKey &norm = c.plan.ops[0].key, &moved = c.plan.ops[2].key;
  const OpKey of_attention = {
      .kind = OpKind::norm, .layer = 0, .part = part_in(BlockKind::attention)};
  norm = of_attention;
  moved.part = 2 * part_in(BlockKind::attention) + 1;
  HostModel host = host_of(25, 30);
  host.per_graph = test::milliseconds(40);
  host.graphs = {GraphModule::attn};
  EXPECT_NEAR(c.makespan_ms(host), 40 + 2, 1e-9);  // one graph; the exchange starts with it
  moved.stage = Stage::dispatch;                   // of a MoE layer
  EXPECT_NEAR(c.makespan_ms(host), 40 + 30, 1e-9);
  moved.stage = Stage::other;
  norm.part = part_in(BlockKind::moe);
  EXPECT_NEAR(c.makespan_ms(host), 25 + 40 + 1, 1e-9);
  norm = of_attention;
  norm.layer = -1;  // the last one of the model
  EXPECT_NEAR(c.makespan_ms(host), 25 + 40 + 1, 1e-9);
}

TEST(HostProgram, CallsPhasesOfADispatchOnce) {
  HostCase c;
  for (int phase = 0; phase < 4; ++phase) c.exchange({}, Stream::ep);
  EXPECT_NEAR(c.makespan_ms(host_of(25, 40)), 40, 1e-9);
  c.kernel(0, kernel_of(10));
  c.exchange();
  EXPECT_NEAR(c.makespan_ms(host_of(25, 40)), 40 + 25 + 40, 1e-9);
}

TEST(HostProgram, CallsADispatchForAsLongAsItsTransportSays) {
  HostCase c;
  c.exchange();
  c.kernel(0, kernel_of(10));
  c.exchange({}, Stream::pp_down, OpKind::stage_transfer);
  auto tokens = std::make_shared<Transport>();
  tokens->host = milliseconds(7);
  c.plan.transports.tokens = tokens;
  EXPECT_NEAR(c.makespan_ms(host_of(25, 40)), 7 + 25 + 40, 1e-9);
}

}  // namespace
}  // namespace moesim
