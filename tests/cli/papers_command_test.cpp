// SPDX-License-Identifier: Apache-2.0
// moesim papers as a user runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Surroundings with_shipped_data() {
  Surroundings surroundings;
  surroundings.data = MOESIM_ROOT;
  return surroundings;
}

nlohmann::json document_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_moesim(arguments, with_shipped_data());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

// What a row says in a table, a user says in flags.
TEST(PapersCommand, FlagsOfAUserGiveWhatTheRowSays) {
  const auto papers =
      document_of({"papers", "--only", "automodel/gpt-oss-120b", "-j", "1", "--json", "-"});
  const auto run = document_of({"run",
                                "--topology",
                                "h100-measured",
                                "--set",
                                "topology.nodes=8",
                                "--model",
                                "gpt-oss-120b",
                                "--policy",
                                "deepep-normal",
                                "--set",
                                "policy.routing=in-turn",
                                "--software",
                                "automodel",
                                "--ep",
                                "64",
                                "--global-batch",
                                "512",
                                "--micro-batch",
                                "2",
                                "--sequence",
                                "4096",
                                "--routing",
                                "balanced",
                                "--set",
                                "microbatches.distinct=2",
                                "--memory",
                                "ignore",
                                "--json",
                                "-"});
  const auto& row = papers["tables"][0]["figures"][0];
  const auto& by_flags = run["cases"][0];
  EXPECT_EQ(row["published"], 4.3);
  EXPECT_DOUBLE_EQ(row["simulated"].get<double>(), by_flags["step_s"].get<double>());
  EXPECT_EQ(row["iteration"]["parts_s"], by_flags["parts_s"]);
}

TEST(PapersCommand, OneRowCanBeAskedFor) {
  const Outcome one =
      run_moesim({"papers", "--only", "simumax-b200/ep8-4", "-j", "1"}, with_shipped_data());
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, AllOf(HasSubstr("1 of 1 published iterations are predicted"),
                             HasSubstr("ep8-4"), Not(HasSubstr("ep8-8"))));
}

TEST(PapersCommand, AChangeReachesEverySetting) {
  const auto document = document_of({"papers", "--only", "simumax-b200/ep8-4", "-j", "1", "--set",
                                     "topology.node.gpu=b200", "--json", "-"});
  const auto plain =
      document_of({"papers", "--only", "simumax-b200/ep8-4", "-j", "1", "--json", "-"});
  EXPECT_LT(document["tables"][0]["figures"][0]["simulated"].get<double>(),
            plain["tables"][0]["figures"][0]["simulated"].get<double>());
}

TEST(PapersCommand, BadInputIsRefused) {
  const Outcome row = run_moesim({"papers", "--only", "simumax-b200/ep8-5"}, with_shipped_data());
  EXPECT_EQ(row.code, 2);
  EXPECT_THAT(row.err, AllOf(HasSubstr("no such figure"), HasSubstr("did you mean 'ep8-4'?")));
  const Outcome traces = run_moesim({"papers", "--traces", "/nowhere"}, with_shipped_data());
  EXPECT_EQ(traces.code, 2);
  EXPECT_THAT(traces.err, HasSubstr("/nowhere: error: no such folder"));
  const Scratch scratch;
  const std::string file = scratch.file("mine.yaml");
  const auto row_with = [&](const std::string& more) {
    write_file(
        file,
        "title: t\nsource: s\nrows:\n- {name: a, model: gpt-oss-20b, policy: alltoall, gpus: "
        "8, topology: h100-rail, parallel: {ep: 8}, batch: {global: 8, sequence: 4096}, set: "
        "[topology.nodes=2], published: 3 s, " +
            more + "}\n");
    return run_moesim({"papers", file, "-j", "1"}, with_shipped_data());
  };
  const Outcome other = row_with("routing: balanced");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("mine: a: 8 GPUs as published, and 16 in the cluster"));
  const Outcome stage = row_with("routing: balanced, turns_of_stage: 1");
  EXPECT_EQ(stage.code, 2);
  EXPECT_THAT(stage.err, HasSubstr("'turns_of_stage' is 1, and the pipeline has 1"));
  const Outcome key = row_with("routing: balanced, pipelin: 1f1b");
  EXPECT_EQ(key.code, 2);
  EXPECT_THAT(key.err, AllOf(HasSubstr("mine: a: "), HasSubstr("pipelin")));
}

// Tables of a user are taken as they are, unless one kind of them is asked for.
TEST(PapersCommand, KindsOfTablesAreChosen) {
  const Scratch scratch;
  const std::string iterations = scratch.file("long.yaml");
  const std::string more = "model: gpt-oss-20b, policy: alltoall, topology: h100-rail, ";
  write_file(iterations,
             "title: t\nsource: s\nrows:\n- {name: a, " + more +
                 "gpus: 8, parallel: {ep: 8}, batch: {global: 8, sequence: 4096}, routing: "
                 "balanced, published: 3 s}\n");
  const auto said = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> line = {"papers", iterations, "-j", "1"};
    line.insert(line.end(), flags.begin(), flags.end());
    return run_moesim(line, with_shipped_data()).err;
  };
  const auto taken = HasSubstr("long: a: 8 GPUs as published, and 32 in the cluster");
  EXPECT_THAT(said({}), taken);
  EXPECT_THAT(said({"--iterations"}), taken);
  EXPECT_THAT(said({"--iterations", "--serving"}), taken);
  EXPECT_EQ(said({"--serving"}), "error: no table is left\n");
  EXPECT_EQ(said({"--fast"}), "error: no table is left\n");
}

// A small iteration, kept and frozen; then its published time is said to be another.
TEST(PapersCommand, KeepsErrorsAndFreezesPredictions) {
  const Scratch scratch;
  const std::string table = scratch.file("t.yaml"), kept = scratch.file("k"),
                    frozen = scratch.file("f");
  const auto publish = [&](const std::string& time) {
    write_file(
        table,
        "title: t\nsource: s\nrows:\n- {name: a, model: gpt-oss-20b, policy: alltoall, gpus: "
        "8, topology: h100-rail, parallel: {ep: 8}, batch: {global: 8, sequence: 4096}, set: "
        "[topology.nodes=1, model.layers=2, model.moe_layers.count=2], routing: balanced, "
        "published: " +
            time + "}\n");
  };
  const auto papers = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"papers", table, "-j", "1"});
    return run_moesim(more, with_shipped_data());
  };
  publish("100 ms");
  const Outcome first = papers({"--keep", kept, "--freeze", frozen});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, Not(HasSubstr("# whole iterations take"))) << "they were named";
  EXPECT_EQ(papers({"--check", kept}).code, 0);
  for (const char* other : {"--freeze", "--page", "--json"}) {
    EXPECT_THAT(papers({"--keep", scratch.file("n"), other, scratch.file("n")}).err,
                HasSubstr("n: error: is the name of two outputs of this command"));
  }
  const auto simulated =
      nlohmann::json::parse(content(frozen))["tables"][0]["figures"][0]["simulated"];
  EXPECT_THAT(papers({"--freeze", frozen}).err, HasSubstr("what is frozen stays as it is"));
  const std::string score = papers({"--score", frozen}).out;
  EXPECT_THAT(score, testing::StartsWith("# frozen on 20"));
  EXPECT_THAT(score, testing::EndsWith("\n0 of 1 measurements are inside their 90 % intervals\n"));
  publish(fmt::format("{} s", simulated.get<double>() * 1.01));
  EXPECT_THAT(papers({"--score", frozen}).out,
              testing::EndsWith("\n1 of 1 measurements are inside their 90 % intervals\n"));
  EXPECT_EQ(papers({"--check", kept}).code, 0) << "a smaller error";
  publish("105 ms");
  const Outcome grown = papers({"--check", kept});
  EXPECT_EQ(grown.code, 1);
  EXPECT_THAT(grown.err, HasSubstr("1 errors have grown against " + kept + ":\n  "));
  EXPECT_EQ(papers({"--check", kept, "--slack", "10 %"}).code, 0);
}

TEST(PapersCommand, SaysWhichTablesItLeavesOut) {
  const Outcome fast = run_moesim({"papers", "--fast", "-j", "1"}, with_shipped_data());
  EXPECT_EQ(fast.code, 0) << fast.err;
  EXPECT_THAT(fast.out,
              testing::EndsWith("\n# whole iterations take four minutes of CPU time: --iterations\n"
                                "# passes of serving engines: --serving\n"));
}

// Other text of the page stays.
TEST(PapersCommand, ThePageGetsTheTablesAnew) {
  const Scratch scratch;
  const std::string page = scratch.file("page.md"), end = "<!-- end -->\nBelow.\n";
  const std::string begin = "Above.\n<!-- begin: written by moesim papers --page -->\n";
  write_file(page, begin + "old\n" + end);
  const Outcome outcome = run_moesim(
      {"papers", "--only", "simumax-b200/ep8-4", "-j", "1", "--page", page}, with_shipped_data());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string text = content(page);
  EXPECT_THAT(text, AllOf(testing::StartsWith(begin), testing::EndsWith(end),
                          HasSubstr("simumax-b200"), Not(HasSubstr("old"))));
}

}  // namespace
}  // namespace moesim
