// SPDX-License-Identifier: Apache-2.0
// Sweeps in one process: what they run, keep, share and merge.
#include "sim/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/sweep/candidates.h"
#include "sim/sweep/claims.h"
#include "sim/sweep/parts.h"
#include "sim/sweep/stale.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// Three degrees at two fidelities; 16 GPUs have none of 32.
SweepGrid degrees_at_two_fidelities(const std::string& degrees = "[8, 16, 32]") {
  return SweepGrid::parse(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: dedup\nset: "
      "[topology.nodes=2]\nsteps: 0\nlayers: [1]\nfidelity: [analytic, port]\naxes: {ep: " +
          degrees + "}\n",
      "grid.yaml", {});
}

class SweepTest : public testing::Test {
 protected:
  SweepOptions options() const {
    SweepOptions options;
    options.file = scratch_ / "s.sqlite";
    options.version = "v";
    return options;
  }
  std::vector<std::int64_t> ids(const std::string& file) const {
    std::vector<std::int64_t> ids;
    SweepReader(file).rows([&](const SweepRow& row) { ids.push_back(row.id); });
    return ids;
  }
  const ScratchFolder scratch_;
  const SweepGrid grid_ = degrees_at_two_fidelities();
};

TEST_F(SweepTest, RunsEveryScenarioOnce) {
  const SweepEnd first = run_sweep(grid_, options());
  EXPECT_EQ(first.scenarios, 6);
  EXPECT_EQ(first.before, 0);
  EXPECT_EQ(first.run, 6);
  EXPECT_EQ(first.again, 0);
  EXPECT_FALSE(first.stopped);
  EXPECT_EQ(first.file, options().file);
  EXPECT_THAT(first.states, ElementsAre(Pair("ok", 4), Pair("unsuitable", 2)));
  EXPECT_THAT(first.reasons, ElementsAre(Pair(HasSubstr("'ep' is 32: it must divide 16 GPUs"), 2)));
  EXPECT_THAT(ids(options().file), ElementsAre(0, 1, 2, 3, 4, 5));
  const SweepEnd second = run_sweep(grid_, options());
  EXPECT_EQ(second.before, 6);
  EXPECT_EQ(second.run, 0);
  EXPECT_EQ(second.states, first.states);
}

TEST_F(SweepTest, GoesOnWhereItWasStopped) {
  SweepOptions stopping = options();
  stopping.stop = [] { return true; };
  const SweepEnd stopped = run_sweep(grid_, stopping);
  EXPECT_TRUE(stopped.stopped);
  const SweepEnd rest = run_sweep(grid_, options());
  EXPECT_EQ(rest.before, stopped.run);
  EXPECT_EQ(rest.before + rest.run, 6);
}

TEST_F(SweepTest, RowsOfAnotherVersionAreRunAgainIfAsked) {
  run_sweep(grid_, options());
  SweepOptions newer = options();
  newer.version = "w";
  EXPECT_THAT(
      error_of([&] { run_sweep(grid_, newer); }),
      AllOf(HasSubstr("6 of its rows are not what a run makes now: moesim (was v) changed since"),
            HasSubstr("--again replaces these rows and keeps the others; -o names another "
                      "file")));
  newer.again = true;
  const SweepEnd end = run_sweep(grid_, newer);
  EXPECT_EQ(end.again, 6);
  EXPECT_EQ(end.run, 6);
  EXPECT_EQ(end.before, 0);
}

TEST_F(SweepTest, RowsThatRunAgainAreMissedUntilTheyHaveRun) {
  run_sweep(grid_, options());
  SweepOptions newer = options();
  newer.version = "w";
  newer.again = true;
  newer.stop = [] { return true; };
  const SweepEnd stopped = run_sweep(grid_, newer);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(ids(options().file).size(), 6u);
  EXPECT_THAT(stopped.reasons,
              Contains(Pair("not run again yet: what it was made of has changed", Gt(0))));
  newer.again = false;
  newer.stop = [] { return false; };
  EXPECT_THAT(run_sweep(grid_, newer).states, ElementsAre(Pair("ok", 4), Pair("unsuitable", 2)));
}

TEST_F(SweepTest, ShardsTakeEveryNthUnitIntoPartsThatMerge) {
  SweepOptions shard = options();
  shard.shard = {1, 2};
  const SweepEnd odd = run_sweep(grid_, shard);
  EXPECT_EQ(odd.file, options().file + ".part-1-of-2");
  EXPECT_EQ(odd.scenarios, 2) << "the unit of degree 16";
  EXPECT_EQ(odd.run, 2);
  EXPECT_THAT(ids(odd.file), ElementsAre(2, 3));
  shard.shard = {0, 2};
  const SweepEnd even = run_sweep(grid_, shard);
  EXPECT_THAT(ids(even.file), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(part_files(options().file), testing::SizeIs(2));
  EXPECT_THAT(error_of([&] { merge_sweep(grid_, options().file, "w"); }),
              HasSubstr("run what it is of with --again, or remove it; nothing is merged yet"));
  const SweepEnd merged = merge_sweep(grid_, options().file, "v");
  EXPECT_EQ(merged.scenarios, 6);
  EXPECT_THAT(merged.states, ElementsAre(Pair("ok", 4), Pair("unsuitable", 2)));
  EXPECT_THAT(part_files(options().file), IsEmpty());
  EXPECT_THAT(ids(options().file), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(SweepTest, OneProcessTakesThePartsOfOthersIn) {
  SweepOptions shard = options();
  shard.shard = {1, 2};
  run_sweep(grid_, shard);
  const SweepEnd end = run_sweep(grid_, options());
  EXPECT_EQ(end.before, 2);
  EXPECT_EQ(end.run, 4);
  EXPECT_THAT(part_files(options().file), IsEmpty());
}

TEST_F(SweepTest, TheLastOfALaunchMerges) {
  SweepOptions rank = options();
  rank.launch = Launch{"job", 0, 2};
  const SweepEnd first = run_sweep(grid_, rank);
  EXPECT_EQ(first.run, 6) << "the other one is late";
  EXPECT_EQ(first.file, options().file + ".part-job-0");
  EXPECT_FALSE(std::filesystem::exists(options().file));
  EXPECT_TRUE(std::filesystem::exists(options().file + ".claims/job/ended-0"));
  rank.launch->rank = 1;
  const SweepEnd last = run_sweep(grid_, rank);
  EXPECT_EQ(last.run, 0) << "all are claimed";
  EXPECT_EQ(last.file, options().file);
  EXPECT_EQ(last.scenarios, 6);
  EXPECT_THAT(last.states, ElementsAre(Pair("ok", 4), Pair("unsuitable", 2)));
  EXPECT_FALSE(std::filesystem::exists(options().file + ".claims"));
  EXPECT_THAT(part_files(options().file), IsEmpty());
}

/// Two recorded microbatches stand for the four of a rough look; rows have the scenario that was
/// asked for.
TEST(RoughUnits, OfIterationsReplayFewMicrobatches) {
  const auto times = [](const std::string& more, bool rough) {
    const SweepGrid grid = SweepGrid::parse(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: megatron\nset: "
        "[topology.nodes=1]\nparallel: {ep: 8}\nbatch: {global: 32, micro: 1, sequence: 256}\n"
        "memory: ignore\nsteps: 0\nfidelity: analytic\n" +
            more,
        "rough.yaml", {});
    SweepRow row = UnitRunner(grid, "v", rough).run(0).at(0);
    EXPECT_EQ(row.state, sweep_ok) << row.reason;
    EXPECT_EQ(text_in(row, "scenario").find("distinct") == std::string::npos, more.empty());
    EXPECT_TRUE(std::isnan(figure_number(row, "least_s"))) << "of other tokens";
    return time_in(row);
  };
  EXPECT_EQ(times("", true), times("microbatches: {distinct: 2}\n", false));
  EXPECT_NE(times("", true), times("", false));
  EXPECT_EQ(times("microbatches: {distinct: 1}\n", true),
            times("microbatches: {distinct: 1}\n", false));
}

TEST_F(SweepTest, RowsSayWhichInputsTheyAreOf) {
  UnitRunner runner(grid_, "v");
  const auto hashes = runner.hashes(0);
  EXPECT_EQ(hashes.fault, "");
  std::map<std::string, std::string> names;
  for (const InputHash& hash : hashes.found) names[hash.column] = hash.name;
  EXPECT_THAT(names, ElementsAre(Pair("gpu_xxh3", ""), Pair("model_xxh3", HasSubstr("gpt-oss-20b")),
                                 Pair("policy_xxh3", HasSubstr("dedup")),
                                 Pair("topology_xxh3", HasSubstr("h100-rail")),
                                 Pair("trace_xxh3", testing::EndsWith("tiny-moe-train")),
                                 Pair("transport_xxh3", "")));
  EXPECT_THAT(runner.hashes(2).fault, HasSubstr("'ep' is 32"));
  const auto rows = runner.run(1);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, 2);
  EXPECT_EQ(rows[1].id, 3);
  const auto value = [&](const SweepRow& row, const std::string& column) {
    const auto found = std::ranges::find(row.figures, column, &SweepFigure::column);
    return found == row.figures.end() ? text_value("none") : found->value;
  };
  EXPECT_EQ(value(rows[1], "ep"), integer_value(16));
  EXPECT_EQ(value(rows[1], "hosts"), integer_value(2));
  EXPECT_EQ(value(rows[0], "fidelity"), text_value("analytic"));
  EXPECT_EQ(value(rows[1], "fidelity"), text_value("port"));
  EXPECT_EQ(value(rows[1], "moesim"), text_value("v"));
  EXPECT_NE(value(rows[1], "scenario"), value(rows[0], "scenario"));
  const auto of_second = runner.hashes(1);
  EXPECT_EQ(of_second.found.size(), hashes.found.size());
  for (const InputHash& hash : of_second.found) {
    EXPECT_EQ(value(rows[1], hash.column), text_value(hash.hash)) << hash.column;
  }
}

TEST_F(SweepTest, RowsThatWereNotRunHaveTheirAxes) {
  UnitRunner runner(grid_, "v");
  const auto rows = runner.not_run(2, sweep_failed, "lost");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, 4);
  EXPECT_EQ(rows[1].id, 5);
  EXPECT_EQ(rows[1].state, sweep_failed);
  EXPECT_EQ(rows[1].reason, "lost");
  ASSERT_EQ(rows[1].figures.size(), 3U);
  EXPECT_EQ(rows[1].figures[0].value, integer_value(32));
  EXPECT_EQ(rows[1].figures[1].value, text_value("port"));
  EXPECT_EQ(rows[1].figures[2].column, "moesim");
}

TEST_F(SweepTest, FilesThatAreAwayFailAndMayComeBack) {
  const SweepGrid away =
      SweepGrid::parse("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: " + scratch_.path() +
                           "/away\npolicy: dedup\nsteps: 0\n",
                       "grid.yaml", {});
  const auto rows = UnitRunner(away, "v").run(0);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].state, sweep_failed);
  EXPECT_THAT(rows[0].reason, HasSubstr("away"));
  EXPECT_EQ(UnitRunner(grid_, "v").run(2)[0].state, sweep_unsuitable);
}

TEST_F(SweepTest, ChangedInputsAreNamedWithTheirRows) {
  run_sweep(grid_, options());
  {
    const auto about = SweepReader(options().file).about();
    SweepStore store(options().file, about);
    std::vector<SweepRow> rows;
    SweepReader(options().file).rows([&](SweepRow row) {
      if (row.id == 1 || row.id == 4) rows.push_back(std::move(row));
    });
    for (SweepFigure& figure : rows[0].figures) {
      if (figure.column == "model_xxh3" || figure.column == "gpu_xxh3") figure.value.text = "old";
    }
    rows[1].figures.clear();
    store.replace(rows);
  }
  UnitRunner runner(grid_, "v");
  const StaleRows stale = stale_rows(options().file, grid_, runner);
  EXPECT_THAT(stale.ids, ElementsAre(1)) << "what could not be opened has no inputs";
  // A name is a path where the file is beside the scenario.
  const auto model = testing::MatchesRegex("the model '.*gpt-oss-20b.*'");
  EXPECT_THAT(stale.changed, ElementsAre(Pair("the gpu", 1), Pair(model, 1)));
  EXPECT_THAT(std::string(stale.error("f", "h").what()),
              AllOf(HasSubstr("f: error: 1 of its rows are not what a run makes now: the gpu, the "
                              "model '"),
                    HasSubstr("' changed since")));
}

TEST_F(SweepTest, DamagedRowsAreRefused) {
  run_sweep(grid_, options());
  const SweepAbout about = SweepReader(options().file).about();
  {
    SweepStore store(options().file, about);
    store.replace({{1, sweep_ok, "", {{"step_s", text_value("abc")}}}});
  }
  SweepOptions again = options();
  again.again = true;
  for (const SweepOptions& each : {options(), again}) {
    EXPECT_THAT(error_of([&] { run_sweep(grid_, each); }),
                AllOf(HasSubstr("is damaged: scenario 1 has text as its step_s"),
                      HasSubstr("remove it and run the sweep again")));
  }
  std::filesystem::remove(options().file);
  EXPECT_EQ(run_sweep(grid_, options()).run, 6);
}

TEST_F(SweepTest, EachRowOfAUnitIsLookedAt) {
  run_sweep(grid_, options());
  {
    SweepStore store(options().file, SweepReader(options().file).about());
    std::vector<SweepRow> rows;
    SweepReader(options().file).rows([&](const SweepRow& row) { rows.push_back(row); });
    for (SweepFigure& figure : rows[2].figures) {
      if (figure.column == "model_xxh3") figure.value.text = "old";
    }
    store.replace({rows[2]});
  }
  UnitRunner runner(grid_, "v");
  EXPECT_THAT(stale_rows(options().file, grid_, runner).ids, ElementsAre(2));
}

TEST_F(SweepTest, RowsBesideTheGridAreNotLookedAt) {
  const SweepRow one = UnitRunner(grid_, "old").run(0).at(0);
  {
    SweepStore store(options().file, {"hash", "grid.yaml", 6, {"ep"}});
    std::vector<SweepRow> rows;
    for (const std::int64_t id : {-1, 0, 5, 6, 7}) rows.push_back({id, sweep_ok, "", one.figures});
    rows.push_back({1, sweep_failed, "lost", one.figures});
    store.add(rows);
  }
  UnitRunner runner(grid_, "v");
  EXPECT_THAT(stale_rows(options().file, grid_, runner).ids, ElementsAre(0, 5));
}

TEST(Claims, OfOneProcessCountUp) {
  const auto claims = own_claims(2);
  EXPECT_EQ(claims->next(), 0);
  EXPECT_EQ(claims->next(), 1);
  EXPECT_EQ(claims->next(), std::nullopt);
}

TEST(Claims, ChunksAreFilesAndTheLastIsShort) {
  const ScratchFolder scratch;
  const auto claims = file_claims(5, scratch.path(), 2);
  EXPECT_EQ(claims->next(), 0);
  EXPECT_EQ(claims->next(), 1);
  EXPECT_FALSE(std::filesystem::exists(scratch / "1"));
  const auto others = file_claims(5, scratch.path(), 2);
  EXPECT_EQ(others->next(), 2);
  EXPECT_EQ(claims->next(), 4);
  EXPECT_EQ(claims->next(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(scratch / "3"));
  EXPECT_TRUE(create_alone(scratch / "mine"));
  EXPECT_FALSE(create_alone(scratch / "mine"));
  EXPECT_THROW(create_alone(scratch / "no/mine"), std::system_error);
}

}  // namespace
}  // namespace moesim
