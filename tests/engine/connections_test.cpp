// SPDX-License-Identifier: Apache-2.0
// Connections over queues at fidelity `flow`: 1 MB takes 1 ms on a link, a segment is 1 MB.
#include "sim/topology/connections.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "sim/engine/cores.h"
#include "sim/engine/flow_backend.h"
#include "tests/engine/fixtures.h"

namespace moesim::test {
namespace {

constexpr std::int64_t megabyte = 1'000'000;
constexpr double close = 2e-5;  // latencies of 5 us and acknowledgements

Connections queues_of(const Topology& topology) {
  Connections result{.buffer = Bytes(1000 * megabyte),
                     .queued = Bytes(megabyte),
                     .segment = Bytes(megabyte),
                     .queues = {},
                     .host = {}};
  for (std::size_t l = 0; l < topology.links().size(); ++l) {
    result.queues[LinkId(static_cast<std::int64_t>(l))] = {BytesPerSecond(1e9), Bytes(1)};
  }
  return result;
}

Timeline run(const Topology& topology, const Connections& connections, const Plan& plan) {
  FlowOptions options;
  options.connections = std::make_shared<const Connections>(connections);
  return make_flow_backend(topology, test_gpus(topology.gpu_count()), options)->run(plan);
}

Seconds end(const Timeline& timeline, OpId op, std::size_t participant) {
  return timeline.ops[op.index()][participant].end;
}

TEST(Connections, SegmentsAreStoredAndForwarded) {
  const Topology topology = star(2);
  PlanWriter writer(2);
  writer.exchange({0, 1}, {{0, 1, 10 * megabyte}});
  // The last segment takes 1 ms more on the second link.
  EXPECT_NEAR(run(topology, queues_of(topology), writer.plan()).makespan.value, 0.011, close);
}

TEST(Connections, ArriveAfterTheLatenciesOfTheirLinks) {
  const Topology topology = star(2, Seconds(0), true);
  PlanWriter writer(2);
  writer.exchange({0, 1}, {{0, 1, megabyte}});
  // 1 ms on each of two links, whose buckets let a byte through at once.
  EXPECT_NEAR(run(topology, queues_of(topology), writer.plan()).makespan.value,
              0.002 - 2e-9 + 25e-6, 1e-12);
}

TEST(Connections, MessagesOfAConnectionFollowEachOther) {
  const Topology topology = star(2);
  PlanWriter writer(2);
  const OpId first = writer.exchange({0, 1}, {{0, 1, 10 * megabyte}});
  const OpId second = writer.exchange({0, 1}, {{0, 1, 10 * megabyte}}, {}, Stream::ep_2);
  const Timeline timeline = run(topology, queues_of(topology), writer.plan());
  EXPECT_NEAR(end(timeline, first, 1).value, 0.011, close);
  EXPECT_NEAR(end(timeline, second, 1).value, 0.021, close);
}

TEST(Connections, ReceiversLinkServesAllSenders) {
  const Topology topology = star(4);
  PlanWriter writer(4);
  writer.exchange({0, 1, 2, 3}, {{0, 3, 10 * megabyte}, {1, 3, megabyte}, {2, 3, 5 * megabyte}});
  EXPECT_NEAR(run(topology, queues_of(topology), writer.plan()).makespan.value, 0.017, close);
}

TEST(Connections, SendEndsWhenTheBufferHasTheRest) {
  const Topology topology = star(2);
  Connections connections = queues_of(topology);
  connections.buffer = Bytes(4 * megabyte);
  PlanWriter writer(2);
  const OpId late = writer.compute(1, milliseconds(20));
  const OpId exchange = writer.exchange({0, 1}, {{0, 1, 10 * megabyte}}, {late});
  const Timeline timeline = run(topology, connections, writer.plan());
  // Six segments have been acknowledged, the last of them after 7 ms. Nobody waits for the
  // receiver, which finds its message there.
  EXPECT_NEAR(end(timeline, exchange, 0).value, 0.007, close);
  EXPECT_NEAR(end(timeline, exchange, 1).value, 0.020, close);
}

TEST(Connections, RestedBucketLetsItsBurstThrough) {
  const Topology topology = star(2);
  Connections connections = queues_of(topology);
  for (auto& [link, queue] : connections.queues) queue.burst = Bytes(4 * megabyte);
  PlanWriter writer(2);
  writer.exchange({0, 1}, {{0, 1, 10 * megabyte}});
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.006, close);
}

TEST(Connections, BufferHasRoomOnceAcknowledgementsHavePassedTheWayBack) {
  const Topology topology = star(2);
  Connections connections = queues_of(topology);
  connections.buffer = Bytes(megabyte);
  // From GPU 1 to the hub an acknowledgement of 66 bytes takes 1 ms.
  connections.queues[topology.paths(GpuId(1), GpuId(0)).front().links.front()] = {
      BytesPerSecond(66e3), Bytes(0)};
  PlanWriter writer(2);
  writer.exchange({0, 1}, {{0, 1, 3 * megabyte}});
  // Every segment passes two links, and is acknowledged before the next is written.
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.008, close);
}

HostCores host_with(int cores) {
  HostCores host;
  host.cores = cores;
  host.pack = host.carry = BytesPerSecond(1e15);
  return host;
}

TEST(Connections, RanksOfAMachineShareItsCores) {
  const Topology topology = star(5);
  Connections connections = queues_of(topology);
  connections.host = host_with(2);
  connections.host->kernel_start = milliseconds(1);
  PlanWriter writer(5);
  for (int gpu = 0; gpu < 5; ++gpu) writer.compute(gpu, milliseconds(2));
  // Hosts of one GPU each: nobody waits. One machine: starts until 1, 1, 2, 2 and 3 ms, kernels
  // until 4, 5, 6, 7 and 8 ms on its two cores.
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.003, 1e-9);
  connections.host->one_machine = true;
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.008, 1e-9);
}

TEST(Connections, HostsTakeTimeToStartToPackAndToCarry) {
  const Topology topology = star(2);
  Connections connections = queues_of(topology);
  connections.host = host_with(1);
  connections.host->exchange_start = milliseconds(3);
  connections.host->pack = BytesPerSecond(0.5e9);
  connections.host->carry = BytesPerSecond(2e9);
  PlanWriter writer(2);
  writer.exchange({0, 1}, {{0, 1, megabyte}});
  // 3 to start, 2 to pack, 0.5 at either end, 1 on each of two links.
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.008, close);
}

TEST(Connections, LateTurnWritesWhatHasRoomMeanwhile) {
  const Topology topology = star(3);
  Connections connections = queues_of(topology);
  connections.buffer = Bytes(4 * megabyte);
  connections.host = host_with(1);
  connections.host->one_machine = true;
  PlanWriter writer(3);
  writer.exchange({0, 1}, {{0, 1, 8 * megabyte}});
  // Four segments are in the buffer when the only core goes to a kernel, and are through after
  // 5 ms. The sender writes the others at its next turn.
  writer.compute(2, milliseconds(20));
  EXPECT_NEAR(run(topology, connections, writer.plan()).makespan.value, 0.025, close);
}

TEST(Connections, MessagesArriveWhileTheirReaderWaitsForACore) {
  const Topology topology = star(3);
  Connections connections = queues_of(topology);
  connections.buffer = Bytes(4 * megabyte);
  connections.host = host_with(1);
  PlanWriter writer(3);
  const OpId kernel = writer.compute(1, milliseconds(20));
  const OpId exchange = writer.exchange({0, 1}, {{0, 1, 8 * megabyte}});
  const Timeline timeline = run(topology, connections, writer.plan());
  // The receiver's core computes: what comes is acknowledged and read later.
  EXPECT_NEAR(end(timeline, exchange, 0).value, 0.005, close);
  EXPECT_NEAR(end(timeline, kernel, 0).value, 0.020, close);
  EXPECT_NEAR(end(timeline, exchange, 1).value, 0.020, close);
}

using Ends = std::vector<std::pair<char, double>>;

/// Three threads, and which of their jobs ended when.
struct Threads {
  explicit Threads(int count) : cores(count) {}
  std::function<void()> job(char name) {
    return [this, name] { ended.emplace_back(name, events.now().value); };
  }
  EventQueue events;
  Cores cores;
  SharedThread one{events, cores}, other{events, cores}, third{events, cores};
  Ends ended;
};

TEST(Cores, ThreadsTakeTurnsFirstComeFirstServed) {
  Threads t(1);
  t.one.run(Seconds(3), t.job('a'));
  t.other.run(Seconds(2), t.job('b'));
  t.third.run(Seconds(1), t.job('c'));
  t.events.run();
  EXPECT_EQ(t.ended, (Ends{{'a', 3}, {'b', 5}, {'c', 6}}));
}

TEST(Cores, TurnLastsWhileThereIsSomethingToDo) {
  Threads t(1);
  t.one.run(Seconds(3), t.job('a'));
  t.other.run(Seconds(2), t.job('b'));
  t.one.run(Seconds(1), t.job('c'));
  t.events.call(Seconds(3.5), [&] { t.one.run(Seconds(1), t.job('d')); });    // still its turn
  t.events.call(Seconds(5.5), [&] { t.one.run(Seconds(0.5), t.job('e')); });  // the other's
  t.events.run();
  EXPECT_EQ(t.ended, (Ends{{'a', 3}, {'c', 4}, {'d', 5}, {'b', 7}, {'e', 7.5}}));
}

TEST(Cores, ThreadsOfTwoCoresWorkAtOnce) {
  Threads t(2);
  t.one.run(Seconds(3), t.job('a'));
  t.other.run(Seconds(2), t.job('b'));
  t.third.run(Seconds(2), t.job('c'));
  t.events.run();
  EXPECT_EQ(t.ended, (Ends{{'b', 2}, {'a', 3}, {'c', 4}}));
}

}  // namespace
}  // namespace moesim::test
