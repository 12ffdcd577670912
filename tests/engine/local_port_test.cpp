// SPDX-License-Identifier: Apache-2.0
// Plans one after the other on one engine of SimGrid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/port_backend.h"
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

/// In a process of its own: an engine that has run cannot simulate at `flow` for the other tests.
std::vector<Timeline> one_after_the_other(const Topology& topology,
                                          const std::vector<Plan>& plans) {
  return from_bytes<std::vector<Timeline>>(run_in_child([&] {
    const auto local = make_local_port_backend(topology, test_gpus(topology.gpu_count()));
    std::vector<Timeline> timelines;
    for (const Plan& plan : plans) timelines.push_back(local->run(plan));
    return to_bytes(timelines);
  }));
}

TEST(LocalPort, DependsOnNothingThatItsEngineSimulatedBefore) {
  const Topology topology = nodes_of_8(2);
  std::vector<Plan> plans;
  for (unsigned seed = 0; seed < 12; ++seed) plans.push_back(crowd(seed));
  plans.push_back(plans.front());
  const auto timelines = one_after_the_other(topology, plans);
  ASSERT_EQ(timelines.size(), plans.size());
  const auto apart = make_port_backend(topology, test_gpus(16));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Timeline alone = apart->run(plans[i]);
    EXPECT_EQ(timelines[i].ops, alone.ops) << "plan " << i;
    EXPECT_EQ(timelines[i].makespan, alone.makespan);
  }
}

TEST(LocalPort, GoesOnAfterAPlanThatNeverFinishes) {
  const Topology topology = star(2);
  PlanWriter stuck(2), sound(2);
  const OpId kernel = stuck.compute(0, Seconds(1e-3));
  stuck.wait(kernel, kernel);
  sound.compute(0, Seconds(1e-3));
  sound.exchange({0, 1}, {{0, 1, 50'000'000}});
  const std::string told = run_in_child([&] {
    const auto local = make_local_port_backend(topology, test_gpus(2));
    std::string text;
    try {
      local->run(stuck.plan());
    } catch (const std::runtime_error& e) {
      text = e.what();
    }
    return text + std::to_string(local->run(sound.plan()).makespan.value);
  });
  EXPECT_THAT(told, testing::HasSubstr("never finished"));
  EXPECT_THAT(told, testing::EndsWith("0.001005"));
}

}  // namespace
}  // namespace moesim::test
