// SPDX-License-Identifier: Apache-2.0
// Exchanges of several rounds: overhead once, latency for each, then the bytes of all.
#include <gtest/gtest.h>

#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

class Rounds : public testing::TestWithParam<BackendCase> {
 protected:
  /// 50 MB from GPU 0 to 1 on a star, in so many rounds.
  static Plan fifty_megabytes(int rounds) {
    PlanWriter w(2);
    w.exchange({0, 1}, {{0, 1, 50'000'000}});
    Plan plan = w.plan();
    std::get<Exchange>(plan.ops[0].work).rounds = rounds;
    return plan;
  }
  static Seconds time_of(const Topology& topology, const Plan& plan) {
    return GetParam().make(topology, test_gpus(plan.gpus))->run(plan).makespan;
  }
};

INSTANTIATE_TEST_SUITE_P(All, Rounds,
                         testing::Values(port_case, flow_case, together_case, simgrid_case,
                                         analytic_case),
                         [](const auto& test) { return test.param.name; });

// 10 us + rounds x 5 us + 50 MB at 50 GB/s.
TEST_P(Rounds, MultiplyLatencyAlone) {
  const Topology topology = star(2, Seconds(10e-6));
  for (const int rounds : {1, 2, 14, 126}) {
    EXPECT_NEAR(time_of(topology, fifty_megabytes(rounds)).value, 10e-6 + rounds * 5e-6 + 1e-3,
                1e-9)
        << rounds;
  }
}

// A ring of four all-reduces 60 MB: 2 x 3 rounds in which everybody sends 15 MB to the next.
TEST_P(Rounds, OfARingTakeItsClosedForm) {
  const Topology topology = star(4, Seconds(10e-6));
  PlanWriter ring(4), steps(4);
  ring.exchange(all_of(4),
                {{0, 1, 90'000'000}, {1, 2, 90'000'000}, {2, 3, 90'000'000}, {3, 0, 90'000'000}});
  Plan plan = ring.plan();
  std::get<Exchange>(plan.ops[0].work).rounds = 6;
  const Seconds time = time_of(topology, plan);
  EXPECT_NEAR(time.value, 10e-6 + 6 * 5e-6 + 90e6 / 50e9, 1e-9);
  for (int round = 0; round < 6; ++round) {
    steps.exchange(
        all_of(4),
        {{0, 1, 15'000'000}, {1, 2, 15'000'000}, {2, 3, 15'000'000}, {3, 0, 15'000'000}});
  }
  // Six exchanges would be launched six times.
  EXPECT_NEAR(time.value + 5 * 10e-6, time_of(topology, steps.plan()).value, 1e-9);
}

TEST_P(Rounds, TheWayBackIsTheTurnedMatrix) {
  Topology::Parts parts;
  parts.name = "half as fast back";
  parts.classes = {{"port", Tier::fabric}};
  parts.vertices = {{"a", VertexKind::gpu, 0}, {"b", VertexKind::gpu, 1}};
  parts.gpus = {VertexId(0), VertexId(1)};
  parts.gpu_model = {"test", "test"};
  parts.levels = {{"cluster", {0, 0}, 1}};
  parts.links = {{VertexId(0), VertexId(1), BytesPerSecond(50e9), Seconds(5e-6)},
                 {VertexId(1), VertexId(0), BytesPerSecond(25e9), Seconds(7e-6)}};
  const Topology topology(std::move(parts));
  Plan plan = fifty_megabytes(3);
  EXPECT_NEAR(time_of(topology, plan).value, 3 * 5e-6 + 1e-3, 1e-9);
  std::get<Exchange>(plan.ops[0].work).transposed = true;
  EXPECT_NEAR(time_of(topology, plan).value, 3 * 7e-6 + 2e-3, 1e-9);
}

}  // namespace
}  // namespace moesim::test
