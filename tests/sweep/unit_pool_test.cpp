// SPDX-License-Identifier: Apache-2.0
// Units that run here or in workers, and what a sweep shows of them meanwhile.
#include "sim/sweep/unit_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "sim/sweep/sweep.h"
#include "tests/run/terminal.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// Units of one scenario of 16 GPUs.
SweepGrid grid_of_degrees(const std::string& degrees) {
  return SweepGrid::parse(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: dedup\nset: "
      "[topology.nodes=2]\nsteps: 0\nlayers: [1]\nfidelity: analytic\naxes: {ep: " +
          degrees + "}\n",
      "grid.yaml", {});
}

/// Page faults of all children that have ended.
long faults_of_children() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_minflt;
}

TEST(UnitRunner, SimulatesInTheProcessThatCalls) {
  const SweepGrid grid = grid_of_degrees("[8, 16]");
  UnitRunner runner(grid, "v");
  const long before = faults_of_children();
  const auto rows = runner.run(1);
  EXPECT_EQ(faults_of_children(), before) << "there is no child";
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].state, sweep_ok);
}

TEST(UnitPool, ReachesEveryUnitAndRunsThoseThatAreWanted) {
  const SweepGrid grid = grid_of_degrees("[2, 4, 8, 16]");
  UnitRunner runner(grid, "v");
  const auto claims = own_claims(grid.units());
  UnitPool pool({*claims, [](std::int64_t unit) { return unit != 1 && unit != 3; }, runner, 2});
  EXPECT_EQ(pool.reached(), 0);
  std::multiset<std::int64_t> ids;
  while (!pool.done()) {
    for (const SweepRow& row : pool.wait()) ids.insert(row.id);
  }
  EXPECT_THAT(ids, testing::ElementsAre(0, 2));
  EXPECT_EQ(pool.reached(), 4) << "also those that nobody wants";
}

/// What a sweep shows on a terminal that somebody watches for longer than it takes to show.
std::string shown_of_sweep(const SweepGrid& grid, SweepOptions options) {
  options.stop = [wait = 2050]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::exchange(wait, 150)));
    return false;
  };
  return on_a_terminal([&] { run_sweep(grid, options); }, 120);
}

TEST(SweepProgress, IsOfTheScenariosThatAreLeft) {
  const ScratchFolder scratch;
  SweepOptions options;
  options.file = scratch / "s.sqlite";
  options.version = "v";
  SweepOptions first = options;
  first.shard = {0, 2};
  ASSERT_EQ(run_sweep(grid_of_degrees("[8, 16]"), first).run, 1);
  EXPECT_THAT(shown_of_sweep(grid_of_degrees("[8, 16]"), options),
              HasSubstr("1 of 1 scenarios, 100 %, "));
}

}  // namespace
}  // namespace moesim
