// SPDX-License-Identifier: Apache-2.0
// "-" is standard output: only documents are there, what people read goes to standard error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

TEST(Output, JsonStandsAloneOnStandardOutput) {
  const std::string trace = MOESIM_ROOT "/tests/fixtures/traces/hand";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {on_hand_trace("compare", "pair", {"megatron", "dedup"}), "megatron"},
      {on_hand_trace("run", "pair", {"dedup"}), "dedup"},
      {on_hand_trace("explain", "pair", {"dedup"}), "dispatch"},
      {{"topology", "show", MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml"}, "bisection"},
      {{"trace", "info", trace, "--ranks", "2"}, "hand"}};
  const Scratch scratch;
  for (auto [command, people] : cases) {
    const Outcome printed = run_moesim(command, {.folder = scratch.path()});
    command.insert(command.end(), {"--json", "-"});
    const Outcome outcome = run_moesim(command, {.folder = scratch.path()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
    EXPECT_EQ(outcome.err, printed.out);
    EXPECT_THAT(outcome.err, HasSubstr(people));
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));  // no file named "-"
  }
}

TEST(Output, OfPlanAndCalibrateMayBePrintedToo) {
  const Scratch scratch;
  const Surroundings here{.folder = scratch.path()};
  auto plan = on_hand_trace("plan", "pair", {"dedup"});
  const Outcome printed = run_moesim(plan, here);
  plan.insert(plan.end(), {"-o", "-"});
  EXPECT_EQ(run_moesim(plan, here).out, printed.out);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Output, OfFilesIsNotPrinted) {
  const Scratch scratch;
  const std::string printed = scratch.file("printed");
  for (const std::string name : {"-", "/dev/stdout"}) {
    const Outcome outcome =
        run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--json", name, "--timeline", name}),
                   {.folder = scratch.path(), .output = printed});
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.err, HasSubstr(name + ": error: is standard output, and this output needs a"
                                              " file of its own\nhint: "));
    EXPECT_EQ(content(printed), "");
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "-"));
  }
}

TEST(Output, TwoHaveTwoNames) {
  const Scratch scratch;
  const std::string file = scratch.file("a.json");
  for (const char* other : {"--timeline", "--report"}) {
    const Outcome outcome =
        run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--json", file, other, file}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err,
                HasSubstr("a.json: error: is the name of two outputs of this command"));
  }
}

TEST(Output, TimelinesHaveTheRanksAndStepsThatAreAskedFor) {
  const Scratch scratch;
  const std::string file = scratch.file("t.json");
  const auto size = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--timeline", file, "-q"};
    flags.insert(flags.end(), more.begin(), more.end());
    EXPECT_EQ(run_moesim(on_hand_trace("run", "pair", {"dedup"}, flags)).code, 0);
    return Json::parse(content(file))["traceEvents"].size();
  };
  const std::size_t usual = size({});
  EXPECT_EQ(size({"--timeline-steps", "1"}), usual);
  EXPECT_GT(size({"--timeline-steps", "2"}), usual);
  EXPECT_LT(size({"--timeline-ranks", "0"}), size({"--timeline-ranks", "all"}));
}

TEST(Output, PicturesAreThereIfAskedFor) {
  const auto first_case = [](const std::string& command, std::vector<std::string> more) {
    more.insert(more.end(), {"--json", "-", "-q"});
    return Json::parse(run_moesim(on_hand_trace(command, "pair", {"dedup"}, more)).out)["cases"][0];
  };
  for (const char* command : {"run", "compare"}) {
    EXPECT_FALSE(first_case(command, {}).contains("pictures"));
    EXPECT_TRUE(first_case(command, {"--pictures"}).contains("pictures"));
  }
  const Scratch scratch;
  EXPECT_FALSE(first_case("run", {"--report", scratch.file("r.html")}).contains("pictures"));
  EXPECT_THAT(content(scratch.file("r.html")), HasSubstr("\"pictures\":"));
}

TEST(Output, PagesHaveIntervalsWithoutBeingAsked) {
  const Scratch scratch;
  const auto has_intervals = [&](std::vector<std::string> more) {
    std::vector<std::string> line = {"compare",
                                     "--topology",
                                     "h100-rail",
                                     "--model",
                                     "gpt-oss-20b",
                                     "--trace",
                                     "tiny-moe-train",
                                     "--policy",
                                     "dedup",
                                     "--steps",
                                     "0:3",
                                     "--layers",
                                     "1",
                                     "--set",
                                     "topology.nodes=1",
                                     "--json",
                                     "-",
                                     "-q"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(line, {.data = MOESIM_ROOT});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["cases"][0].contains("intervals");
  };
  EXPECT_FALSE(has_intervals({}));
  EXPECT_TRUE(has_intervals({"--intervals"}));
  EXPECT_TRUE(has_intervals({"--report", scratch.file("r.html")}));
}

TEST(Output, SaysWhatMovedAgainstWhatWasStored) {
  const Scratch scratch;
  const std::string file = scratch.file("e.json");
  const auto compared = [&](const std::vector<std::string>& more) {
    return run_moesim(on_hand_trace("compare", "pair", {"dedup"}, more),
                      {.folder = scratch.path()});
  };
  ASSERT_EQ(compared({"--json", file}).code, 0);
  EXPECT_THAT(compared({"--expect", file}).out,
              HasSubstr("e.json: 0 of 1 cases moved by more than 1 %\n"));
  Json stored = Json::parse(content(file));
  stored["cases"][0]["step_s"] = stored["cases"][0]["step_s"].get<double>() / 1.1;
  std::ofstream(file) << stored;
  const Outcome moved = compared({"--expect", file});
  EXPECT_EQ(moved.code, 1);
  EXPECT_THAT(moved.out, HasSubstr("e.json: 1 of 1 cases moved by more than 1 %\n"));
  EXPECT_THAT(moved.err, HasSubstr("the run failed: 1 of 1 cases moved against " + file + "\n"));
  EXPECT_EQ(compared({"--expect", file, "--tolerance", "11 %"}).code, 0);
}

TEST(Output, SaysWhatStandsForOthers) {
  const auto notes = [](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"run",
                                     "--topology",
                                     "h100-rail",
                                     "--set",
                                     "topology.nodes=1",
                                     "--model",
                                     "gpt-oss-20b",
                                     "--policy",
                                     "alltoall",
                                     "--routing",
                                     "balanced",
                                     "--pp",
                                     "2",
                                     "--ep",
                                     "4",
                                     "--global-batch",
                                     "256",
                                     "--sequence",
                                     "512",
                                     "--memory",
                                     "ignore",
                                     "--set",
                                     "model.layers=2",
                                     "--set",
                                     "model.moe_layers.count=2",
                                     "-q"};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(line, {.data = MOESIM_ROOT});
    return outcome.out + outcome.err;
  };
  const auto microbatches = HasSubstr(" of 64 microbatches and continued their steady state"),
             gpus = HasSubstr(" simulated by 2 of 8 GPUs");
  EXPECT_THAT(notes({}), AllOf(microbatches, gpus));
  EXPECT_THAT(notes({"--every-microbatch"}), AllOf(Not(microbatches), gpus));
  EXPECT_THAT(notes({"--every-gpu"}), AllOf(microbatches, Not(gpus)));
}

}  // namespace
}  // namespace moesim
