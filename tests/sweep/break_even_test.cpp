// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/break_even.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

TEST(BreakEven, CrossingsAreFoundOnBothSides) {
  EXPECT_NEAR(crossing([](double factor) { return factor - 0.7; }, {0.25, 0.3, -0.45}, 1e-6), 0.7,
              1e-5);
  EXPECT_NEAR(crossing([](double factor) { return 3 - factor; }, {4, 2, -1}, 1e-6), 3, 1e-5);
}

TEST(BreakEven, CrossingsOfSmoothTimesTakeHalfTheTrialsOfBisection) {
  constexpr double precision = 0.02;
  const double bisected = std::ceil(std::log2(std::log(4) / precision));
  const auto trials = [&](const std::function<double(double)>& ahead, double end) {
    int count = 0;
    double nearest = 0;  // logarithm of the farthest factor at which it is ahead
    const auto counted = [&](double factor) {
      ++count;
      const double value = ahead(factor);
      if (value > 0) nearest = std::max(nearest, std::abs(std::log(factor)));
      return value;
    };
    const double found = crossing(counted, {end, ahead(1), ahead(end)}, precision);
    EXPECT_LE(ahead(found), 0);
    EXPECT_LE(std::abs(std::log(found)) - nearest, precision);
    return count;
  };
  // Bytes by bandwidth and what does not depend on it; a step where another plan is made.
  for (const double root : {1.1, 1.7, 2.5, 3.9}) {
    EXPECT_LE(trials([&](double f) { return 1 / f - 1 / root; }, 4), 0.6 * bisected) << root;
    EXPECT_LE(trials([&](double f) { return f - 1 / root; }, 0.25), 0.6 * bisected) << root;
    EXPECT_LE(trials([&](double f) { return f < root ? 1e-6 : -1.0; }, 4), bisected) << root;
    EXPECT_LE(trials([&](double f) { return f > 1 / root ? 1.0 : -HUGE_VAL; }, 0.25), bisected);
  }
}

/// Two hosts with fast or with wide NICs.
Scenario hosts_with(const std::string& bandwidth, const std::string& latency,
                    const std::string& policy = "alltoall") {
  const std::string text =
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " + policy +
      "\n"
      "transport: ideal\nsteps: 0\nlayers: [1]\nset:\n- topology.nodes=2\n"
      "- topology.node.nics.bandwidth=" +
      bandwidth + "\n- topology.node.nics.latency=" + latency + "\n";
  return parse_scenario(text, "hosts.yaml", {}, {});
}

double time_with(const Scenario& scenario, const std::string& resource, double factor) {
  const Inputs inputs =
      open_changed_inputs(scenario, {{resource + "=" + std::to_string(factor)}, {}, {}});
  return simulate(scenario, inputs, {.workers = 1}).cases[0].metrics.mean_step().value;
}

TEST(BreakEven, FactorsMakeTheSlowerOneAsFast) {
  const Scenario fast = hosts_with("50 GB/s", "1 us"), wide = hosts_with("100 GB/s", "15 us");
  ASSERT_LT(time_with(fast, "nic.latency", 1), time_with(wide, "nic.latency", 1));
  const auto found = break_even(fast, wide, 1, [] { return false; });
  ASSERT_FALSE(found.empty());
  bool by_latency = false;
  for (const ResourceFactor& b : found) {
    by_latency |= b.resource == "nic.latency" && b.factor < 1;
    EXPECT_LE(time_with(wide, b.resource, b.factor), time_with(fast, b.resource, b.factor) * 1.001)
        << b.resource << " " << b.factor;
    const double before = b.factor < 1 ? b.factor * 1.05 : b.factor / 1.05;
    EXPECT_GT(time_with(wide, b.resource, before), time_with(fast, b.resource, before));
  }
  EXPECT_TRUE(by_latency);
  EXPECT_TRUE(std::ranges::is_sorted(
      found, {}, [](const ResourceFactor& b) { return std::abs(std::log(b.factor)); }));
  EXPECT_TRUE(break_even(fast, wide, 1, [] { return true; }).empty()) << "somebody has stopped it";
  EXPECT_TRUE(break_even(fast, hosts_with("100 GB/s", "1 s"), 1, [] { return false; }).empty());
}

// HybridEP's planner chooses domains by rates: it plans anew on every changed cluster.
TEST(BreakEven, PlansByRatesAreMadeAnew) {
  const Scenario fast = hosts_with("50 GB/s", "1 us", "hybridep-exact"),
                 wide = hosts_with("100 GB/s", "30 us", "hybridep-exact");
  ASSERT_LT(time_with(fast, "nic.latency", 1), time_with(wide, "nic.latency", 1));
  std::map<std::string, int> found;
  for (const ResourceFactor& b : break_even(fast, wide, 1, [] { return false; })) {
    ++found[b.resource];
    EXPECT_LE(time_with(wide, b.resource, b.factor), time_with(fast, b.resource, b.factor) * 1.001)
        << b.resource << " " << b.factor;
  }
  for (const char* resource : {"nic.latency", "nic.bandwidth", "nvlink.bandwidth", "gpu.flops"}) {
    int expected = 0;
    for (const double end : {farthest_factor, 1 / farthest_factor}) {
      expected += time_with(wide, resource, end) <= time_with(fast, resource, end) ? 1 : 0;
    }
    EXPECT_EQ(found[resource], expected) << resource;
  }
}

/// The same hosts, which run iterations: nothing is kept of their plans.
Scenario iterations_with(const std::string& bandwidth, const std::string& latency,
                         const std::string& software = "software: ideal") {
  return parse_scenario(
      "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\npolicy: alltoall\n"
      "transport: ideal\n" +
          software +
          "\nparallel: {ep: 16}\nbatch: {global: 16, micro: 1, "
          "sequence: 512}\n"
          "set:\n- topology.nodes=2\n- topology.node.nics.bandwidth=" +
          bandwidth + "\n- topology.node.nics.latency=" + latency + "\n",
      "iterations.yaml", {}, {});
}

TEST(BreakEven, IterationsArePlannedOnEveryChangedCluster) {
  const Scenario fast = iterations_with("50 GB/s", "1 us"),
                 wide = iterations_with("100 GB/s", "4 us");
  ASSERT_LT(time_with(fast, "nic.latency", 1), time_with(wide, "nic.latency", 1));
  bool by_latency = false;
  for (const ResourceFactor& b : break_even(fast, wide, 1, [] { return false; })) {
    by_latency |= b.resource == "nic.latency" && b.factor < 1;
    EXPECT_LE(time_with(wide, b.resource, b.factor), time_with(fast, b.resource, b.factor) * 1.001)
        << b.resource << " " << b.factor;
  }
  EXPECT_TRUE(by_latency);
}

/// A wide network behind slow hosts: with faster ones the network decides.
TEST(BreakEven, HostsMayBeWhatIsMissing) {
  const auto host = [](const std::string& time) {
    return "host: {per_kernel: " + time + ", per_module: 0 us}";
  };
  const Scenario fast = iterations_with("10 GB/s", "1 us", host("10 us")),
                 wide = iterations_with("100 GB/s", "1 us", host("20 us"));
  ASSERT_LT(time_with(fast, "host.time", 1), time_with(wide, "host.time", 1));
  ASSERT_GT(time_with(fast, "host.time", 0.25), time_with(wide, "host.time", 0.25));
  const auto found = break_even(fast, wide, 1, [] { return false; });
  const auto of_host = std::ranges::find(found, "host.time", &ResourceFactor::resource);
  ASSERT_NE(of_host, found.end());
  EXPECT_LT(of_host->factor, 1);
  EXPECT_LE(time_with(wide, "host.time", of_host->factor),
            time_with(fast, "host.time", of_host->factor) * 1.001);
}

}  // namespace
}  // namespace moesim
