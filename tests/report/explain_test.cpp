// SPDX-License-Identifier: Apache-2.0
// Figures of an explanation that can be worked out in one's head.
#include "sim/report/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/port_backend.h"
#include "sim/report/explain_text.h"
#include "sim/report/names.h"
#include "sim/transport/transport.h"
#include "tests/engine/fixtures.h"
#include "tests/plan/fixtures.h"
#include "tests/report/table_rows.h"

namespace moesim::test {
namespace {

GpuModels round_gpus(int count) {
  const auto gpu = std::make_shared<const GpuModel>(
      parse_gpu_model("name: round\nsource: test\nmemory: 10 GB\nmemory_bandwidth: 1 TB/s\n"
                      "peak: {bf16: 100 TFLOP/s}\nlaunch_overhead: 1 us\n",
                      "round"));
  return {static_cast<std::size_t>(count), gpu};
}

Op sending(const std::string& name, std::initializer_list<int> gpus, ByteMatrix traffic,
           std::vector<RowMove> rows, std::initializer_list<int> after = {}) {
  Op op = exchange(name, gpus, std::move(traffic), after);
  op.key.stage = Stage::dispatch;
  std::get<Exchange>(op.work).rows = std::move(rows);
  return op;
}

RowMove row(int from, int to, int token) { return {GpuId(from), GpuId(to), TokenId(token), 1}; }

Explanation explain_with_formula(const Plan& plan, const Topology& topology) {
  check_plan(plan);
  const GpuModels gpus = round_gpus(plan.gpus);
  const auto backend = make_analytic_backend(topology, gpus);
  return explain(PricedPlan(plan, topology), gpus, {{"analytic", backend.get()}});
}

// Two pairs on a star with 50 GB/s ports: 5 MB one way, 10 MB the other. 5 us per route.
Plan two_pairs() {
  Plan plan{"plan", 4, {}};
  plan.add(kernel("pack", 0, {}, MemoryBound{Bytes(1'000'000), Bytes(1'000'000)}));
  plan.add(sending("send", {0, 1}, matrix(2, 5'000'000, {{{0, 0, 1}}, {{0, 1, 1}}}),
                   {row(0, 0, 0), row(0, 1, 1)}, {0}));
  plan.add(
      sending("send", {2, 3}, matrix(2, 5'000'000, {{{1, 0, 2}}}), {row(3, 2, 2), row(3, 2, 3)}));
  return plan;
}

TEST(Explain, GroupsTheCommunicatorsOfAPhase) {
  const Explanation e = explain_with_formula(two_pairs(), star(4, milliseconds(0.01)));
  ASSERT_EQ(e.phases.size(), 1u);
  const PhaseReport& send = e.phases[0];
  EXPECT_EQ(send.communicators, 2);
  EXPECT_EQ(send.least_gpus, 2);
  EXPECT_EQ(send.most_gpus, 2);
  EXPECT_EQ(send.rounds, 1);
  EXPECT_EQ(send.reach.rows, (std::array<std::int64_t, 3>{1, 0, 3}));
  EXPECT_EQ(send.reach.bytes, (std::array{Bytes(5'000'000), Bytes(0), Bytes(15'000'000)}));
}

TEST(Explain, FindsTheBusiestLinkAndItsTime) {
  const Explanation e = explain_with_formula(two_pairs(), star(4, milliseconds(0.01)));
  const PhaseReport& send = e.phases[0];
  ASSERT_EQ(send.classes.size(), 1u);
  const ClassLoad& port = send.classes[0];
  EXPECT_EQ(send.busiest_class, 0);
  EXPECT_EQ(port.links, 8);
  EXPECT_EQ(port.used, 4);
  EXPECT_EQ(port.bytes, 30'000'000);  // every byte goes into the hub and out of it
  EXPECT_EQ(port.busiest_bytes, Bytes(10'000'000));
  EXPECT_NEAR(port.busiest_time.value, 200e-6, 1e-12);
  EXPECT_NEAR(port.over_mean, 200.0 / (600.0 / 8), 1e-9);
  EXPECT_NEAR(send.closed_form.overhead.value, 10e-6, 1e-12);
  EXPECT_NEAR(send.closed_form.latency.value, 5e-6, 1e-12);
  EXPECT_NEAR(send.closed_form.total().value, 215e-6, 1e-12);
  EXPECT_NEAR(send.times[0].alone.value, 215e-6, 1e-12);
  EXPECT_NEAR(send.times[0].in_layer.value, 215e-6, 1e-12);
}

// A pipeline stage has the links of all stages in its topology, and uses those of its GPUs.
TEST(Explain, TakesTheMeanOverTheLinksOfItsStage) {
  const Topology stage =
      star(16, milliseconds(0.01)).of_gpus({GpuId(8), GpuId(9), GpuId(10), GpuId(11)});
  const ClassLoad port = explain_with_formula(two_pairs(), stage).phases[0].classes.at(0);
  EXPECT_EQ(port.links, 8);
  EXPECT_EQ(port.used, 4);
  EXPECT_NEAR(port.over_mean, 200.0 / (600.0 / 8), 1e-9);
}

// GPU 0 packs for 1 us + 2 MB / 1 TB/s = 3 us while GPU 1 waits: 3 us over four GPUs.
TEST(Explain, TellsWaitingAndKernels) {
  const Explanation e = explain_with_formula(two_pairs(), star(4, milliseconds(0.01)));
  EXPECT_NEAR(e.phases[0].times[0].wait.value, 0.75e-6, 1e-12);
  ASSERT_EQ(e.kernels.size(), 1u);
  const KernelReport& pack = e.kernels[0];
  EXPECT_EQ(pack.gpus, 1);
  EXPECT_NEAR(pack.max.value, 3e-6, 1e-12);
  EXPECT_NEAR(pack.mean.value, 0.75e-6, 1e-12);
  EXPECT_EQ(pack.bytes, Bytes(2'000'000));
  EXPECT_EQ(pack.bound, KernelBound::memory);
  ASSERT_EQ(e.order.size(), 2u);
  EXPECT_FALSE(e.order[0].phase);
  EXPECT_TRUE(e.order[1].phase);
}

TEST(Explain, SaysAllInTables) {
  const Topology topology = star(4, milliseconds(0.01));
  const Explanation e = explain_with_formula(two_pairs(), topology);
  const std::string wire = topology.classes()[0].name, gpu = gpu_name(topology, GpuId(0));
  const Printout text = explain_text(e, topology);
  using ::testing::ElementsAre;
  EXPECT_THAT(rows_of(text, "forward order"),
              ElementsAre("pack|1|750 ns|3 us|memory|" + gpu + "|2 MB",
                          "> send|2 x 2||215 us|" + wire + "||"));
  EXPECT_THAT(rows_of(text, "forward moves"),
              ElementsAre("send|2 x 2|20 MB|15 MB|0 B|5 MB|1|4|3|0|1"));
  EXPECT_THAT(
      rows_of(text, "forward links"),
      ElementsAre("send|" + wire + " *|" + link_name(topology, e.phases[0].classes[0].busiest) +
                  "|10 MB|200 us|2.67|4/8|30 MB"));
  EXPECT_THAT(rows_of(text, "forward times"),
              ElementsAre("send|closed form|215 us|||10 us|5 us|200 us|0 ns",
                          "|analytic|215 us|215 us|750 ns"));
  EXPECT_THAT(rows_of(text, "bounds"), ElementsAre("forward|dispatch|215 us|215 us|1.00|" +
                                                   e.bounds[0].least.port + "|5 MB|15 MB|15 MB"));
}

// Of parts of equal length the transfer binds, then the overhead.
TEST(Explain, TheLongestPartBindsAPhase) {
  const Topology topology = star(2);
  PhaseReport phase;
  phase.classes.resize(1);
  phase.busiest_class = 0;
  const auto bound = [&](double overhead, double latency, double transfer) {
    phase.closed_form.overhead = Seconds(overhead);
    phase.closed_form.latency = Seconds(latency);
    phase.closed_form.transfer = Seconds(transfer);
    return bound_by(phase, topology);
  };
  const std::string wire = topology.classes()[0].name;
  EXPECT_EQ(bound(2, 1, 2), wire);
  EXPECT_EQ(bound(1, 2, 2), wire);
  EXPECT_EQ(bound(3, 3, 2), "overhead");
  EXPECT_EQ(bound(2, 3, 1), "latency");
  EXPECT_EQ(bound(3, 2, 1), "overhead");
  phase.busiest_class = -1;
  EXPECT_EQ(bound(0, 1, 2), "latency");
  phase.minimum = Seconds(3.5);
  EXPECT_EQ(bound(0, 1, 2), "minimum time");
}

// 2 x 1000^3 flop at 100 TFLOP/s are 20 us, 6 MB at 1 TB/s are 6 us; one row costs 2 MB: 2 us.
TEST(Explain, NamesTheBoundThatBinds) {
  const std::pair<Kernel, KernelBound> cases[] = {
      {GroupedGemm{{1000}, 1000, 1000, DataType::bf16}, KernelBound::compute},
      {GroupedGemm{{1}, 1000, 1000, DataType::bf16}, KernelBound::memory},
      {GroupedGemm{{1}, 10, 10, DataType::bf16}, KernelBound::launch}};
  for (const auto& [work, bound] : cases) {
    Plan plan{"plan", 4, {}};
    plan.add(kernel("fc1", 2, {}, work));
    const Explanation e = explain_with_formula(plan, star(4));
    EXPECT_EQ(e.kernels[0].bound, bound) << name_of(bound);
    EXPECT_EQ(e.kernels[0].slowest, GpuId(2));
  }
}

// Two chunks of one name one after the other: overhead and latency count twice.
TEST(Explain, CountsRoundsOfAPhaseInChunks) {
  Plan plan{"plan", 2, {}};
  for (const int token : {0, 1}) {
    plan.add(sending("send", {0, 1}, matrix(2, 5'000'000, {{0, 1, 1}}), {row(0, 1, token)}));
  }
  const Topology topology = star(2, milliseconds(0.01));
  const GpuModels gpus = round_gpus(2);
  const auto backend = make_port_backend(topology, gpus);
  const Explanation e = explain(PricedPlan(plan, topology), gpus, {{"port", backend.get()}});
  EXPECT_EQ(e.phases[0].communicators, 1);
  EXPECT_EQ(e.phases[0].rounds, 2);
  EXPECT_NEAR(e.phases[0].closed_form.total().value, 230e-6, 1e-12);
  EXPECT_NEAR(e.phases[0].times[0].alone.value, 230e-6, 1e-12);
  EXPECT_NEAR(e.phases[0].times[0].in_layer.value, 230e-6, 1e-12);
}

// A fused kernel starts once: 30 us, not twice, before two rounds.
TEST(Explain, AFusedKernelStartsOnce) {
  Transport fused;
  fused.fused = true;
  fused.start_up = TierTimes{Seconds(30e-6), Seconds(30e-6), Seconds(30e-6)};
  Plan plan{"plan", 2, {}};
  plan.transports.tokens = std::make_shared<const Transport>(fused);
  for (const int round : {0, 1}) {
    Op op = sending("send", {0, 1}, matrix(2, 5'000'000, {{0, 1, 1}}), {row(0, 1, round)});
    op.key.kind = OpKind::token_exchange;
    op.key.part = round;
    plan.add(std::move(op));
  }
  const Explanation e = explain_with_formula(plan, star(2, milliseconds(0.01)));
  ASSERT_EQ(e.phases.size(), 1u);
  EXPECT_EQ(e.phases[0].rounds, 2);
  EXPECT_NEAR(e.phases[0].closed_form.overhead.value, 30e-6, 1e-12);
  EXPECT_NEAR(e.phases[0].times[0].alone.value, e.phases[0].closed_form.total().value, 1e-12);
}

Op minimum(int gpu, std::int64_t nanoseconds) {
  Op op = kernel("send-minimum-time", gpu, {}, HostWork{nanoseconds});
  op.key.kind = OpKind::minimum_time;
  op.stream = Stream::copy;
  op.key.stage = Stage::dispatch;
  return op;
}

// 215 us for the bytes, but 300 us at least on GPU 3: that is the phase, its bound is 215 us.
TEST(Explain, CountsAMinimumTimeInItsPhase) {
  Plan plan{"plan", 4, {}};
  plan.add(minimum(3, 300'000));
  plan.add(
      sending("send", {2, 3}, matrix(2, 5'000'000, {{{0, 1, 2}}}), {row(2, 3, 0), row(2, 3, 1)}));
  const Topology topology = star(4, milliseconds(0.01));
  const Explanation e = explain_with_formula(plan, topology);
  EXPECT_TRUE(e.kernels.empty());
  ASSERT_EQ(e.phases.size(), 1u);
  const PhaseReport& send = e.phases[0];
  EXPECT_EQ(send.name, "send");
  EXPECT_NEAR(send.closed_form.total().value, 215e-6, 1e-12);
  EXPECT_NEAR(send.closed_form_total().value, 300e-6, 1e-12);
  EXPECT_NEAR(send.times[0].alone.value, 300e-6, 1e-12);
  EXPECT_NEAR(send.times[0].in_layer.value, 300e-6, 1e-12);
  EXPECT_EQ(bound_by(send, topology), "minimum time");
  ASSERT_EQ(e.bounds.size(), 1u);
  EXPECT_NEAR(e.bounds[0].bound().value, 215e-6, 1e-12);
  EXPECT_NEAR(e.bounds[0].achieved[0].second.value, 300e-6, 1e-12);
}

// Minimum times of 300 us and 20 us after each other, exchanges of 115 us with them: 320 us.
TEST(Explain, CountsWhatRoundsOverlapOnce) {
  Plan plan{"plan", 2, {}};
  for (const int round : {0, 1}) {
    plan.add(minimum(1, round == 0 ? 300'000 : 20'000));
    plan.add(sending("send", {0, 1}, matrix(2, 5'000'000, {{0, 1, 1}}), {row(0, 1, round)}));
  }
  const Explanation e = explain_with_formula(plan, star(2, milliseconds(0.01)));
  EXPECT_EQ(e.phases[0].rounds, 2);
  EXPECT_NEAR(e.phases[0].minimum.value, 320e-6, 1e-12);
  EXPECT_NEAR(e.phases[0].times[0].alone.value, 320e-6, 1e-12);
  EXPECT_NEAR(e.phases[0].times[0].in_layer.value, 320e-6, 1e-12);
}

// Three rows of 5 MB: GPU 2 is entered by two, 200 us + 5 us + 10 us, which is what the plan needs.
TEST(Explain, ComparesWithTheLowerBound) {
  const Explanation e = explain_with_formula(two_pairs(), star(4, milliseconds(0.01)));
  ASSERT_EQ(e.bounds.size(), 1u);
  const BoundReport& bound = e.bounds[0];
  EXPECT_EQ(bound.row, Bytes(5'000'000));
  EXPECT_EQ(bound.between_hosts, Bytes(15'000'000));
  EXPECT_EQ(bound.least.between_hosts, Bytes(15'000'000));
  EXPECT_NEAR(bound.bound().value, 215e-6, 1e-12);
  EXPECT_NEAR(bound.achieved[0].second.value, 215e-6, 1e-12);
}

}  // namespace
}  // namespace moesim::test
