// SPDX-License-Identifier: Apache-2.0
// Plans one after the other in one process, on our clock and on SimGrid's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/port_backend.h"
#include "sim/engine/simulator.h"
#include "sim/plan/simulate/execution.h"
#include "tests/engine/fixtures.h"

namespace moesim::test {
namespace {

/// Kernels and exchanges of three streams that share links.
Plan crowd(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  PlanWriter w(16);
  for (int i = 0; i < 24; ++i) {
    w.compute(below(16), milliseconds(0.01 * below(10)));
    const int first = below(8), second = 8 + below(8);
    const Stream stream = i % 3 == 0 ? Stream::ep : i % 3 == 1 ? Stream::ep_2 : Stream::param;
    w.exchange({first, second}, {{first, second, 1000 * (1 + below(5000))}}, {}, stream);
  }
  return w.plan();
}

/// The events of `port` as actors of SimGrid's engine, in a process of its own.
Timeline on_simgrids_clock(const Topology& topology, const Plan& plan) {
  const PricedPlan priced(plan, topology);
  Execution execution(priced, test_gpus(topology.gpu_count()));
  return from_bytes<Timeline>(run_in_child([&] {
    const auto simulator = make_simulator(Seconds(1e-12));
    return to_bytes(std::move(execution).run(*simulator, [&](Network::Ended ended) {
      return make_port_network(*simulator, priced, std::move(ended));
    }));
  }));
}

TEST(PortClock, RunsAsSimGridsDoes) {
  const Topology topology = nodes_of_8(2);
  const auto port = make_port_backend(topology, test_gpus(16));
  for (unsigned seed = 0; seed < 6; ++seed) {
    const Plan plan = crowd(seed);
    const Timeline ours = port->run(plan), its = on_simgrids_clock(topology, plan);
    ASSERT_EQ(ours.ops.size(), its.ops.size());
    for (std::size_t op = 0; op < its.ops.size(); ++op) {
      ASSERT_EQ(ours.ops[op].size(), its.ops[op].size());
      for (std::size_t i = 0; i < its.ops[op].size(); ++i) {
        EXPECT_NEAR(ours.ops[op][i].start.value, its.ops[op][i].start.value, 1e-12);
        EXPECT_NEAR(ours.ops[op][i].end.value, its.ops[op][i].end.value, 1e-12);
      }
    }
  }
}

TEST(PortClock, DependsOnNothingThatWasSimulatedBefore) {
  const Topology topology = nodes_of_8(2);
  const auto port = make_port_backend(topology, test_gpus(16));
  const Timeline first = port->run(crowd(0));
  for (unsigned seed = 1; seed < 12; ++seed) port->run(crowd(seed));
  const Timeline again = port->run(crowd(0));
  EXPECT_EQ(first.ops, again.ops);
  EXPECT_EQ(first.makespan, again.makespan);
}

TEST(PortClock, GoesOnAfterAPlanThatNeverFinishes) {
  const Topology topology = star(2);
  PlanWriter stuck(2), sound(2);
  const OpId kernel = stuck.compute(0, Seconds(1e-3));
  stuck.wait(kernel, kernel);
  sound.compute(0, Seconds(1e-3));
  sound.exchange({0, 1}, {{0, 1, 50'000'000}});
  const auto port = make_port_backend(topology, test_gpus(2));
  EXPECT_THAT([&] { port->run(stuck.plan()); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("never finished")));
  EXPECT_NEAR(port->run(sound.plan()).makespan.value, 1.005e-3, 1e-9);
}

}  // namespace
}  // namespace moesim::test
