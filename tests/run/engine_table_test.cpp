// SPDX-License-Identifier: Apache-2.0
// What a table of engine runs shows of outcomes that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run/engine_views.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

using testing::ElementsAre;

EngineCase case_of(const CaseName& name) {
  EngineCase c{name, {}};
  c.outcome.kv_tokens = no_limit;
  c.outcome.metrics.time = Seconds(10);
  return c;
}

const CaseName first_name{"pair", "one", "port", "recorded"};

Table table_of(const std::vector<EngineCase>& cases, const ServingSla& sla = {}) {
  EngineRun run;
  run.sla = sla;
  Scenario scenario;
  scenario.engine_run = std::make_shared<const EngineRun>(run);
  return std::get<Table>(engine_table(scenario, cases).parts().at(0));
}

std::vector<std::string> keys_of(const Table& table) {
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns) {
    if (column.kind == TableColumn::Kind::key) names.push_back(column.name);
  }
  return names;
}

/// Names of the figures that say something.
std::vector<std::string> telling(const Table& table, int block) {
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns) {
    if (column.kind == TableColumn::Kind::figure && column.block == block && column.telling) {
      names.push_back(column.name);
    }
  }
  return names;
}

std::string cell(const Table& table, const std::string& name, std::size_t row = 0) {
  const auto found = std::ranges::find(table.columns, name, &TableColumn::name);
  return table.rows.at(row).at(static_cast<std::size_t>(found - table.columns.begin())).text;
}

TEST(EngineTable, NamesCasesByWhatDiffers) {
  const Table alike = table_of({case_of(first_name), case_of({"pair", "two", "port", "recorded"})});
  EXPECT_THAT(keys_of(alike), ElementsAre("policy", "routing"));
  EXPECT_EQ(cell(alike, "policy", 1), "two");
  EXPECT_EQ(cell(alike, "routing"), "recorded");
  const Table table = table_of({case_of(first_name), case_of({"node", "one", "flow", "recorded"})});
  EXPECT_THAT(keys_of(table), ElementsAre("topology", "policy", "routing", "fidelity"));
  EXPECT_EQ(cell(table, "topology", 1), "node");
  EXPECT_EQ(cell(table, "fidelity", 1), "flow");
}

TEST(EngineTable, ShowsOnlyWhatSomeCaseTells) {
  const Table table = table_of({case_of(first_name)});
  EXPECT_THAT(table.titles,
              ElementsAre("latency and throughput", "load", "where the time of passes goes"));
  EXPECT_THAT(telling(table, 0),
              ElementsAre("TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "tokens/s/GPU"));
  EXPECT_THAT(telling(table, 1), ElementsAre("requests/s", "tokens/s/user", "gap p99",
                                             "latency p50", "latency p95", "running", "waiting"));
  const std::vector<std::string> times = telling(table, 2);
  ASSERT_EQ(times.size(), 3 + pass_parts);
  EXPECT_EQ(times.front(), "busy");
  EXPECT_EQ(times.back(), "simulated");
  EXPECT_THAT(telling(table_of({case_of(first_name)}, {{}, Seconds(1)}), 0),
              testing::IsSupersetOf({"goodput/s", "SLA met"}));
}

TEST(EngineTable, ShowsLossesMemoryAndErrorsOfAnyCase) {
  EngineCase c = case_of({"pair", "two", "port", "recorded"});
  c.outcome.kv_tokens = 900;
  c.outcome.losses = {2, 3, 400, Seconds(1)};
  c.outcome.metrics.load = {
      .kv_mean = 0.125, .kv_most = 0.5, .cached_share = 0.0625, .preemptions = 4};
  c.outcome.errors = {.checks = 5, .mean = 0.01234, .most = 0.5};
  c.outcome.metrics.passes.part_shares[0] = 0.125;
  c.outcome.metrics.rates = {.output_per_gpu = 9.876, .requests = 12.3};
  const Table table = table_of({case_of(first_name), c});
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"losses", "2"},
                                                        {"restarted", "3"},
                                                        {"KV lost", "400"},
                                                        {"lost/h", "360 s"},
                                                        {"KV tokens/rank", "900"},
                                                        {"KV use", "12.5 %"},
                                                        {"most", "50.0 %"},
                                                        {"cached", "6.2 %"},
                                                        {"preempted", "4"},
                                                        {"price error", "1.23 %"},
                                                        {pass_part_names[0], "12.5 %"},
                                                        {"tokens/s/GPU", "9.88"},
                                                        {"requests/s", "12"}}) {
    EXPECT_EQ(cell(table, name, 1), text) << name;
    EXPECT_TRUE(std::ranges::find(table.columns, name, &TableColumn::name)->telling) << name;
  }
}

TEST(EngineTable, SaysWhatWasNotRunAndHowFarPricesAreOff) {
  EngineCase one = case_of(first_name), two = one, none = one;
  one.outcome.errors = {.checks = 5, .mean = 0.01, .most = 0.5};
  two.outcome.errors = {.checks = 7, .mean = 0.02, .most = 0.25};
  none.outcome.unsuitable = "too small";
  Scenario scenario;
  scenario.engine_run = std::make_shared<EngineRun>();
  const Printout printout = engine_table(scenario, {one, none, two});
  EXPECT_EQ(std::get<Table>(printout.parts().at(0)).rows.size(), 2U);
  std::string text;
  for (const auto& part : printout.parts()) {
    if (const auto* words = std::get_if<std::string>(&part)) text += *words;
  }
  EXPECT_EQ(text,
            "# one (recorded) on pair was not run: too small\n"
            "# prices of passes are reused: 12 were simulated to check them, 2.00 % off on average "
            "in the worst case, 50.00 % at most (serving.prices: exact simulates all)\n");
}

}  // namespace
}  // namespace moesim
