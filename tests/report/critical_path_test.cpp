// SPDX-License-Identifier: Apache-2.0
// The critical path of hand-made timelines.
#include "sim/report/critical_path.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sim/analytic/analytic_backend.h"
#include "sim/report/path_sums.h"
#include "sim/report/time_bounds.h"

namespace moesim {
namespace {

constexpr double us = 1e-6;

/// Two GPUs in one host over links of 1 GB/s, 1 us away; exchanges take 2 us besides.
Topology wired_pair() {
  Topology::Parts parts;
  parts.name = "pair";
  parts.classes = {{"wire", Tier::host}};
  for (int g = 0; g < 2; ++g) {
    parts.vertices.push_back({"host.gpu" + std::to_string(g), VertexKind::gpu, 0});
    parts.gpus.push_back(VertexId(g));
    parts.gpu_model.push_back("test");
    parts.links.push_back({.from = VertexId(g),
                           .to = VertexId(1 - g),
                           .bandwidth = BytesPerSecond(1e9),
                           .latency = Seconds(1 * us)});
  }
  parts.levels = {{"cluster", {0, 0}, 1}};
  parts.exchange_overhead = Seconds(2 * us);
  return Topology(std::move(parts));
}

class CriticalPathTest : public testing::Test {
 protected:
  CriticalPathTest() { plan_.gpus = 2; }
  static Kernels work(int microseconds) {
    return Kernels(Kernel(HostWork{std::int64_t{microseconds} * 1000}));
  }
  OpId kernel(OpKind kind, int gpu, int microseconds, std::vector<OpId> after = {},
              Stream stream = Stream::compute) {
    Op op{name_of(kind), {}, stream, {GpuId(gpu)}, std::move(after), work(microseconds)};
    op.key.kind = kind;
    op.key.layer = 3;
    return plan_.add(op);
  }
  /// GPU 0 sends GPU 1 so many kB.
  OpId exchange(int kilobytes, std::vector<OpId> after, Stream stream = Stream::ep) {
    const std::int64_t dense[] = {0, kilobytes * 1000, 0, 0};
    Op op{"dispatch",       {},
          stream,           Group::first(2),
          std::move(after), Exchange{ByteMatrix::from_dense(2, dense), {}}};
    op.key.kind = OpKind::token_exchange;
    op.key.stage = Stage::dispatch;
    op.key.layer = 3;
    return plan_.add(op);
  }
  Timeline run() {
    const PricedPlan priced(plan_, topology_);
    return make_analytic_backend(topology_, gpus_)->run(priced);
  }
  PathSums sums() {
    const PricedPlan priced(plan_, topology_);
    return path_sums(critical_path(plan_, run()), priced, gpus_);
  }

  Topology topology_ = wired_pair();
  GpuModels gpus_ = GpuModels(2, std::make_shared<const GpuModel>());
  Plan plan_;
};

TEST_F(CriticalPathTest, GoesThroughTheSlowestParticipantAndWhatThatOneWaitedFor) {
  const OpId early = kernel(OpKind::gate, 0, 10);
  const OpId first = kernel(OpKind::norm, 1, 20);
  const OpId late = kernel(OpKind::gate, 1, 30);  // behind `first` on the stream
  const OpId sent = exchange(100, {early, late});
  const OpId last = kernel(OpKind::fc1, 0, 40, {sent});
  kernel(OpKind::fc1, 1, 5, {sent});
  const Timeline timeline = run();
  // 20 + 30, then 2 + 1 + 100, then 40.
  EXPECT_NEAR(timeline.makespan.value, 193 * us, 1e-12);
  const auto path = critical_path(plan_, timeline);
  ASSERT_EQ(path.size(), 4u);
  EXPECT_EQ(path[0].op, first);
  EXPECT_EQ(path[0].wait, PathWait::nothing);
  EXPECT_EQ(path[1].op, late);
  EXPECT_EQ(path[1].wait, PathWait::stream);
  EXPECT_EQ(path[2].op, sent);
  EXPECT_EQ(path[2].gpu, GpuId(0));      // which continues with fc1
  EXPECT_EQ(path[2].slowest, GpuId(1));  // for which it waited
  EXPECT_EQ(path[2].wait, PathWait::data);
  EXPECT_NEAR(path[2].length().value, 103 * us, 1e-12);
  EXPECT_NEAR(path[2].waited.value, 20 * us, 1e-12);  // 40 us and none
  EXPECT_EQ(path[3].op, last);
  EXPECT_EQ(path[3].wait, PathWait::data);
}

TEST_F(CriticalPathTest, SumsSayWhatKindWhereAndBoundByWhat) {
  const OpId late = kernel(OpKind::gate, 1, 30);
  const OpId sent = exchange(100, {late});
  kernel(OpKind::planning, 0, 40, {sent});
  const PathSums path = sums();
  EXPECT_NEAR(path.length.value, 173 * us, 1e-12);
  EXPECT_NEAR(path.of(PathKind::moe_other).time.value, 30 * us, 1e-12);
  EXPECT_NEAR(path.of(PathKind::host).time.value, 40 * us, 1e-12);
  const PathPart& dispatch = path.of(PathKind::dispatch);
  EXPECT_NEAR(dispatch.time.value, 103 * us, 1e-12);
  ASSERT_EQ(dispatch.by.size(), 3u);
  EXPECT_NEAR(dispatch.by.at("overhead").value, 2 * us, 1e-12);
  EXPECT_NEAR(dispatch.by.at("latency").value, 1 * us, 1e-12);
  EXPECT_NEAR(dispatch.by.at("wire").value, 100 * us, 1e-12);
  ASSERT_EQ(dispatch.links.size(), 1u);
  EXPECT_EQ(dispatch.links.begin()->first, "host.gpu0 -> gpu1");
  EXPECT_EQ(longest_kind(path), PathKind::dispatch);
  EXPECT_NEAR(path.gpus[1].value, 133 * us, 1e-12);   // the exchange waited for GPU 1 ...
  EXPECT_NEAR(path.waited[1].value, 15 * us, 1e-12);  // GPU 0 for 30 us
  EXPECT_NEAR(path.gpus[0].value, 40 * us, 1e-12);
  EXPECT_NEAR(path.layers.at(3).value, 173 * us, 1e-12);
}

TEST_F(CriticalPathTest, NamesTimeThatNoOpExplains) {
  const OpId first = kernel(OpKind::norm, 0, 1);
  kernel(OpKind::norm, 0, 1);
  Timeline timeline;
  timeline.ops = {{{Seconds(2), Seconds(5)}}, {{Seconds(6), Seconds(9)}}};
  timeline.makespan = Seconds(10);
  const auto path = critical_path(plan_, timeline);
  ASSERT_EQ(path.size(), 5u);
  EXPECT_EQ(path[1].op, first);
  Seconds idle;
  for (const std::size_t i : {0, 2, 4}) {
    EXPECT_TRUE(path[i].idle);
    idle += path[i].length();
  }
  EXPECT_DOUBLE_EQ(idle.value, 4);
  EXPECT_EQ(path[0].when.start, Seconds(0));
  EXPECT_EQ(path[4].when.end, Seconds(10));
  const PathPart part = path_sums(path, PricedPlan(plan_, topology_), gpus_).of(PathKind::idle);
  EXPECT_EQ(part.time, Seconds(4));
  EXPECT_EQ(part.by.at(name_of(PathKind::idle)), Seconds(4));
}

TEST_F(CriticalPathTest, TiesGoToTheOwnGpuAndToData) {
  const OpId other = kernel(OpKind::norm, 0, 10, {}, Stream::copy);
  const OpId own = kernel(OpKind::norm, 1, 10);
  const OpId sent = exchange(0, {other, own});
  kernel(OpKind::fc1, 1, 10, {sent, own});
  const auto path = critical_path(plan_, run());
  ASSERT_EQ(path.size(), 3u);
  EXPECT_EQ(path[0].op, own);
  EXPECT_EQ(path[1].slowest, GpuId(1));
  EXPECT_EQ(path[2].wait, PathWait::data);
}

/// An exchange of GPU 0 and 1 that ends at 3 on GPU 0, whose next kernel ends last.
TEST_F(CriticalPathTest, OfAnExchangeThatEndsByItselfWaitsForWhoJoinsBeforeTheEnd) {
  const auto slowest = [&](int kilobytes, double joins, double ends) {
    plan_ = Plan();
    plan_.gpus = 2;
    const OpId sent = exchange(kilobytes, {});
    kernel(OpKind::fc1, 0, 7, {sent});
    Timeline timeline;
    timeline.ops.add_row({{Seconds(1), Seconds(3)}, {Seconds(joins), Seconds(ends)}});
    timeline.ops.add_row({{Seconds(3), Seconds(10)}});
    timeline.makespan = Seconds(10);
    const auto path = critical_path(plan_, timeline);
    EXPECT_EQ(path.at(path.size() - 2).op, sent);
    return path.at(path.size() - 2).slowest.value;
  };
  EXPECT_EQ(slowest(1, 2, 6), 1);
  EXPECT_EQ(slowest(1, 3, 6), 1);
  EXPECT_EQ(slowest(1, 4, 6), 0);  // too late to have held it up
  EXPECT_EQ(slowest(0, 2, 6), 0);  // nothing moves between them
  EXPECT_EQ(slowest(0, 2, 3), 1);  // they end together
}

TEST_F(CriticalPathTest, OfNothingIsEmpty) {
  EXPECT_TRUE(critical_path(plan_, run()).empty());
  EXPECT_EQ(sums().length, Seconds(0));
}

TEST_F(CriticalPathTest, BoundsLeaveOneCostAway) {
  const OpId a = kernel(OpKind::norm, 0, 10);
  const OpId b = kernel(OpKind::norm, 1, 30);
  const OpId sent = exchange(100, {a, b});
  kernel(OpKind::fc1, 0, 50, {sent});
  const PricedPlan priced(plan_, topology_);
  const TimeBounds bounds = time_bounds(priced, run(), gpus_, {});
  EXPECT_NEAR(bounds.balance.value, 45 * us, 1e-12);           // (10 + 50 + 30) / 2
  EXPECT_NEAR(bounds.compute.value, 60 * us, 1e-12);           // GPU 0
  EXPECT_NEAR(bounds.port.value, 103 * us, 1e-12);             // the exchange
  EXPECT_NEAR(bounds.no_communication.value, 80 * us, 1e-12);  // 30 + 50
  EXPECT_NEAR(bounds.no_bubble.value, 183 * us, 1e-12);        // GPU 0 or 1 in kernel or exchange
  EXPECT_NEAR(least_time(priced, gpus_).value, 183 * us, 1e-12);  // 30 + 103 + 50
  const TimeBounds apart = time_bounds(priced, run(), gpus_, {.together = false});
  EXPECT_NEAR(apart.port.value, 100 * us, 1e-12);  // only the link
  EXPECT_NEAR(apart.no_communication.value, 80 * us, 1e-12);
}

TEST_F(CriticalPathTest, OnlyTheComputeStreamBindsComputing) {
  kernel(OpKind::norm, 0, 10);
  kernel(OpKind::norm, 0, 70, {}, Stream::copy);
  EXPECT_NEAR(time_bounds(PricedPlan(plan_, topology_), run(), gpus_, {}).compute.value, 10 * us,
              1e-12);
}

TEST_F(CriticalPathTest, WorkOfAHostIsBoundByIt) {
  kernel(OpKind::norm, 0, 10);
  const TimeByResource by = sums().of(PathKind::dense).by;
  ASSERT_EQ(by.size(), 1u);
  EXPECT_NEAR(by.at("host").value, 10 * us, 1e-12);
}

}  // namespace
}  // namespace moesim
