// SPDX-License-Identifier: Apache-2.0
// What a table of engine runs shows of outcomes that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/run/engine_views.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

TEST(EngineTable, HasCostsIfTheClusterStatesThem) {
  EngineCase free = case_of(first_name), paid = free;
  paid.outcome.costs = {.dollars_per_million = 2.5, .joules = 0.125};
  const Table table = table_of({free, paid});
  EXPECT_EQ(cell(table, "$/Mtoken", 0), "-");
  EXPECT_EQ(cell(table, "$/Mtoken", 1), "2.500");
  EXPECT_EQ(cell(table, "J/token", 1), "0.1250");
  EXPECT_THAT(telling(table, 0), testing::Contains("$/Mtoken"));
  EXPECT_THAT(telling(table_of({free}), 0), testing::Not(testing::Contains("$/Mtoken")));
  EXPECT_EQ(engine_case_json(paid)["usd_per_million_tokens"], 2.5);
}

TEST(EngineTable, SaysThatNoPolicyRebalances) {
  const auto text = [](bool stated, bool from_loads) {
    EngineRun run;
    run.states_rebalance = stated;
    Scenario scenario;
    scenario.engine_run = std::make_shared<const EngineRun>(run);
    EngineCase c = case_of(first_name);
    c.outcome.balancing.from_loads = from_loads;
    std::string all;
    const Printout printout = engine_table(scenario, {c});
    for (const auto& part : printout.parts()) {
      if (const auto* line = std::get_if<std::string>(&part)) all += *line;
    }
    return all;
  };
  const auto note = HasSubstr("# serving.engine.rebalance has no effect");
  EXPECT_THAT(text(true, false), note);
  EXPECT_THAT(text(true, true), testing::Not(note));
  EXPECT_THAT(text(false, false), testing::Not(note));
}

TEST(EngineTable, SaysWhichPoolStatesNoCosts) {
  Scenario scenario;
  scenario.engine_run = std::make_shared<const EngineRun>();
  EngineCase c = case_of(first_name);
  EXPECT_THAT(engine_table(scenario, {c}).text(), testing::Not(HasSubstr("not stated")));
  c.outcome.costs_not_stated = "price of the GPUs that compute prompts";
  EXPECT_THAT(engine_table(scenario, {c}).text(),
              HasSubstr("# the price of the GPUs that compute prompts is not stated: no costs"));
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
  c.outcome.losses = {1, 3, 400, Seconds(1), 700};
  c.outcome.metrics.load = {
      .kv_mean = 0.125, .kv_most = 0.5, .cached_share = 0.0625, .preemptions = 4};
  c.outcome.errors.prompts = {.checks = 5, .off = 5 * 0.01234, .most = 0.5};
  c.outcome.metrics.passes.part_shares[0] = 0.125;
  c.outcome.metrics.rates = {.output_per_gpu = 9.876, .requests = 12.3};
  const Table table = table_of({case_of(first_name), c});
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"losses", "1"},
                                                        {"restarted", "3"},
                                                        {"KV lost", "400"},
                                                        {"KV left", "700"},
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

EngineCase case_of_figures() {
  EngineCase c{{"pair", "one", "port", "recorded"}, {}};
  EngineOutcome& o = c.outcome;
  o.metrics.requests = 1, o.metrics.warmup = 2, o.metrics.time = Seconds(7200);
  o.metrics.ttft = {3, 4, 5, 6, 7, 8, 9};
  o.metrics.tpot.count = 10, o.metrics.gap.count = 11, o.metrics.latency.count = 12;
  o.metrics.rates = {13, 14, 10, 9.996, 9.994, 18, 0.25};
  o.metrics.load = {0.5, 0.75, 22, 23, 24, 0.125, 26};
  o.metrics.passes = {27, 0.875, {0.5, 0.25, 0.125, 0.0625, 0.03125}, 0.375, 0.625};
  o.samples = {{Seconds(35), 36, 37, 38, 39}};
  o.ranks = 40, o.gpus = 41, o.kv_tokens = 42, o.simulated = 43;
  o.errors.prompts = {.checks = 1, .off = 40, .most = 46, .table = 5, .exact = 1};
  o.errors.decodes = {.checks = 3, .off = 30, .most = 20, .table = 7, .exact = 2};
  return c;
}

TEST(EngineTable, ShowsTwoDecimalsOfRatesBelowTen) {
  const Table table = table_of({case_of_figures()}, {Seconds(1), {}});
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"tokens/s/GPU", "10"},
                                                        {"tokens/s/user", "10.00"},
                                                        {"requests/s", "9.99"},
                                                        {"goodput/s", "18"},
                                                        {"SLA met", "25.0 %"},
                                                        {"running", "23"},
                                                        {"waiting", "22"},
                                                        {"busy", "87.5 %"},
                                                        {"stalls", "37.5 %"},
                                                        {"padding", "62.5 %"},
                                                        {"passes", "27"},
                                                        {"simulated", "43"},
                                                        {"TTFT p50", "5 s"},
                                                        {"TTFT p95", "7 s"}}) {
    EXPECT_EQ(cell(table, name), text) << name;
  }
}

TEST(EngineJson, HasTheFiguresOfACaseUnderTheirNames) {
  const std::string none = R"("mean_s":0.0,"p50_s":0.0,"p90_s":0.0,"p95_s":0.0,"p99_s":0.0,)"
                           R"("max_s":0.0})";
  EngineCase c = case_of_figures();
  EXPECT_EQ(
      engine_case_json(c).dump(),
      R"({"topology":"pair","policy":"one","fidelity":"port","routing":"recorded","gpus":41,)"
      R"("ranks":40,"run_s":7200.0,"requests":1,"warmup_requests":2,"ttft":{"count":3,)"
      R"("mean_s":4.0,"p50_s":5.0,"p90_s":6.0,"p95_s":7.0,"p99_s":8.0,"max_s":9.0},)"
      R"("tpot":{"count":10,)" +
          none + R"(,"gap":{"count":11,)" + none + R"(,"latency":{"count":12,)" + none +
          R"(,"output_tokens_per_s":13.0,"input_tokens_per_s":14.0,"tokens_per_s_per_gpu":10.0,)"
          R"("tokens_per_s_per_user":9.996,"requests_per_s":9.994,"goodput_per_s":18.0,)"
          R"("sla_met":0.25,"kv":{"tokens_per_rank":42,"mean":0.5,"max":0.75,)"
          R"("cached_share":0.125,"preemptions":26},"waiting":{"mean":22.0,"max":24},)"
          R"("running_mean":23.0,"busy":0.875,"parts":{"attention":0.5,"experts":0.25,)"
          R"("exchange":0.125,"wait":0.0625,"other":0.03125},"stalls":0.375,"padding":0.625,)"
          R"("passes":27,"prices":{"simulated":43,"checked":4,"mean_error":17.5,)"
          R"("mean_error_of_prompts":40.0,"mean_error_of_decodes":10.0,)"
          R"("max_error":46.0,"error_of_sum":3.0},"samples":[[35.0,36,37,38,39]]})");
  c.outcome.unsuitable = "too small";
  EXPECT_EQ(engine_case_json(c).dump(),
            R"({"topology":"pair","policy":"one","fidelity":"port","routing":"recorded",)"
            R"("not_run":"too small"})");
}

TEST(EngineJson, HasLossesAndWhatMovedIfThereAreAny) {
  EngineCase c = case_of_figures();
  c.outcome.kv_tokens = no_limit;
  c.outcome.losses = {1, 2, 3, Seconds(8)};
  c.outcome.moved_requests = 1;
  c.outcome.moved = Bytes(5);
  const nlohmann::ordered_json json = engine_case_json(c);
  EXPECT_EQ(json.at("losses").dump(),
            R"({"count":1,"restarted_requests":2,"kv_tokens":3,"lost_s_per_hour":4.0})");
  EXPECT_EQ(json.at("lost_s"), 8);
  EXPECT_EQ(json.at("moved").dump(), R"({"requests":1,"bytes":5})");
  EXPECT_TRUE(json.at("kv").at("tokens_per_rank").is_null());
}

TEST(EngineTable, SaysThatRatesAreOverTheAnswersAfterTheLastRequest) {
  EngineCase one = case_of(first_name);
  one.outcome.metrics.time = Seconds(12);
  one.outcome.metrics.last_arrival = Seconds(10);
  const auto noted = [&](std::int64_t concurrency) {
    EngineRun run;
    run.draw.concurrency = concurrency;
    Scenario scenario;
    scenario.engine_run = std::make_shared<EngineRun>(run);
    return engine_table(scenario, {one})
               .text()
               .find(
                   "# rates are over the whole run: requests came until 10 s, answers until 12 "
                   "s\n") != std::string::npos;
  };
  EXPECT_TRUE(noted(0));
  EXPECT_FALSE(noted(8)) << "an answer brings the next request";
  one.outcome.metrics.time = Seconds(10.9);
  EXPECT_FALSE(noted(0));
}

TEST(EngineTable, SaysWhatWasNotRunAndHowFarPricesAreOff) {
  EngineCase one = case_of(first_name), two = one, none = one;
  one.outcome.errors.decodes = {.checks = 5, .off = 0.05, .most = 0.5};
  two.outcome.errors.prompts = {.checks = 4, .off = 0.08, .most = 0.25};
  two.outcome.errors.decodes = {.checks = 3, .off = 0.03, .most = 0.125};
  none.outcome.unsuitable = "too small";
  Scenario scenario;
  scenario.engine_run = std::make_shared<EngineRun>();
  const Printout printout = engine_table(scenario, {one, none, two});
  EXPECT_EQ(std::get<Table>(printout.parts().at(0)).rows.size(), 2U);
  std::string text;
  for (const auto& part : printout.parts()) {
    if (const auto* words = std::get_if<std::string>(&part)) text += *words;
  }
  EXPECT_EQ(
      text,
      "# one (recorded) on pair was not run: too small\n"
      "# prices of single passes are reused: 12 were simulated to check them, those with prompts "
      "2.00 % off on average and 25.00 % at most, others 1.00 % off on average and 12.50 % "
      "at most, in the case with the largest errors; percentiles of a run move more "
      "(serving.prices: "
      "exact simulates all)\n");
}

}  // namespace
}  // namespace moesim
