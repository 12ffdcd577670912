// SPDX-License-Identifier: Apache-2.0
// What migration costs, and when it costs more than it gains.
#include "sim/report/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/report/table.h"
#include "sim/topology/reader.h"
#include "tests/report/iteration_case.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double ms = 1e-3;

/// One step of `time`, the part `migration` of it.
CaseResult moving(const std::string& policy, double time, double migration,
                  const std::string& but_placement) {
  CaseResult c;
  c.name = {"a6000", policy, "port"};
  c.metrics.steps = {Seconds(time)};
  c.metrics.path.length = Seconds(time);
  c.metrics.path.kinds[static_cast<std::size_t>(PathKind::migration)].time =
      Seconds(time * migration);
  c.twin = {but_placement, migration == 0};
  return c;
}

TEST(Migration, CostsMoreThanItGainsIfItsTwinIsFaster) {
  const CaseResult swaps = moving("hiermoe", 100 * ms, 0.6, "hierarchical");
  const CaseResult twin = moving("hiermoe-hd", 50 * ms, 0, "hierarchical");
  EXPECT_EQ(
      migration_notes(std::vector{swaps, twin}),
      "# note: migration costs hiermoe more than it gains: it takes 60.0 % of the step of 100 "
      "ms, and hiermoe-hd, the same dispatch without it, is faster (50 ms on a6000, port)\n");
}

TEST(Migration, PaysIfItsTwinIsSlower) {
  const CaseResult swaps = moving("hiermoe", 40 * ms, 0.1, "hierarchical");
  EXPECT_EQ(migration_notes(std::vector{swaps, moving("hiermoe-hd", 50 * ms, 0, "hierarchical")}),
            "");
}

TEST(Migration, SaysHowToMakeATwinIfThereIsNone) {
  const std::string line =
      "# note: hiermoe spends 1 % of the step or more on migration; to see whether it pays, add "
      "--set policy:hiermoe.placement=contiguous\n";
  const CaseResult swaps = moving("hiermoe", 100 * ms, 0.6, "hierarchical");
  EXPECT_EQ(migration_notes(std::vector{swaps}), line);
  // Another dispatch, another topology or one that plans is not its twin.
  EXPECT_EQ(migration_notes(std::vector{swaps, moving("dedup", 50 * ms, 0, "dedup")}), line);
  CaseResult elsewhere = moving("hiermoe-hd", 50 * ms, 0, "hierarchical");
  elsewhere.name.topology = "h100";
  EXPECT_EQ(migration_notes(std::vector{swaps, elsewhere}), line);
  CaseResult planning = moving("oracle", 50 * ms, 0, "hierarchical");
  planning.twin.fixed = false;
  EXPECT_EQ(migration_notes(std::vector{swaps, planning}), line);
  EXPECT_EQ(migration_notes(std::vector{moving("hiermoe", 100 * ms, 0.005, "hierarchical")}), "");
}

TEST(Migration, IsAColumnOnlyIfSomePolicyMigrates) {
  const Topology topology = std::move(
      parse_topology("source: test\nnodes: 1\nnode: {gpu: h100-sxm, gpus: 2, nvlink: {kind: "
                     "switch, bandwidth: 50 GB/s, latency: 1 us}, nics: {count: 1, "
                     "bandwidth: 5 GB/s, latency: 1 us}}\nfabric: {kind: none}\n",
                     "test")
          .topology);
  CaseResult swaps = moving("hiermoe", 100 * ms, 0.6, "hierarchical");
  CaseResult twin = moving("hiermoe-hd", 50 * ms, 0, "hierarchical");
  swaps.topology = twin.topology = &topology;
  const std::string both = comparison_table({swaps, twin}).text();
  EXPECT_THAT(both, ::testing::ContainsRegex("step +speedup +migration"));
  EXPECT_THAT(both, ::testing::ContainsRegex("hiermoe +100 ms +1.00x +60.0 %"));
  EXPECT_THAT(both, ::testing::ContainsRegex("hiermoe-hd +50 ms +2.00x +- "));
  EXPECT_THAT(comparison_table({twin}).text(), Not(HasSubstr("migration")));
}

TEST(Migration, OfIterationsIsToldAlike) {
  CaseResult swaps = test::iteration_case("a6000", "hiermoe", "recorded", 2);
  swaps.metrics.path.length = Seconds(2);
  swaps.metrics.path.kinds[static_cast<std::size_t>(PathKind::migration)].time = Seconds(0.5);
  swaps.twin = {"hierarchical", false};
  CaseResult twin = swaps;
  twin.name.policy = "hiermoe-hd";
  twin.metrics.iteration->times.iteration = twin.metrics.path.length = Seconds(1);
  twin.metrics.path.kinds = {};
  twin.twin.fixed = true;
  const std::string text = comparison_table({swaps, twin}).text();
  EXPECT_THAT(text, HasSubstr("it takes 25.0 % of the iteration of 2 s, and hiermoe-hd"));
  EXPECT_THAT(text, ::testing::ContainsRegex("iteration +speedup +migration"));
  EXPECT_DOUBLE_EQ(case_json(swaps)["migration_share"].get<double>(), 0.25);
}

}  // namespace
}  // namespace moesim
