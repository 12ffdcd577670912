// SPDX-License-Identifier: Apache-2.0
// moesim trace on the hand-sized trace: 2 steps of 4 sequences of 2 tokens, layers 0 and 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

const std::string hand_trace = MOESIM_ROOT "/tests/fixtures/traces/hand";

class TraceCommand : public testing::Test {
 protected:
  Outcome trace(const std::string& command, std::vector<std::string> more) const {
    more.insert(more.begin(), {"trace", command, hand_trace});
    return run_moesim(more);
  }
  /// What `trace slice` or `trace serve` says of the trace that it wrote, without the folder.
  std::string made(const std::string& command, std::vector<std::string> more) const {
    const std::string folder = scratch_.file(command + std::to_string(++made_));
    more.insert(more.end(), {"-o", folder});
    const Outcome outcome = trace(command, more);
    const std::string before = "wrote " + folder + ": ";
    EXPECT_EQ(outcome.out.substr(0, before.size()), before) << outcome.err;
    return outcome.out.substr(std::min(before.size(), outcome.out.size()));
  }
  const Scratch scratch_;
  mutable int made_ = 0;
};

TEST_F(TraceCommand, SliceTakesStepsLayersSequencesAndTokens) {
  EXPECT_EQ(made("slice", {}), "2 steps, 16 tokens, 2 layers\n");
  EXPECT_EQ(made("slice", {"--steps", "0:1"}), "1 step, 8 tokens, 2 layers\n");
  EXPECT_EQ(made("slice", {"--layers", "1:1"}), "2 steps, 16 tokens, 1 layer\n");
  EXPECT_EQ(made("slice", {"--layers", "0:2"}), "2 steps, 16 tokens, 2 layers\n");
  EXPECT_EQ(made("slice", {"--layers", "0,1"}), "2 steps, 16 tokens, 2 layers\n");
  EXPECT_EQ(made("slice", {"--layers", "1"}), "2 steps, 16 tokens, 1 layer\n");
  EXPECT_EQ(made("slice", {"--sequences", "1:2"}), "2 steps, 4 tokens, 2 layers\n");
  EXPECT_EQ(made("slice", {"--tokens", "3"}), "2 steps, 6 tokens, 2 layers\n");
}

TEST_F(TraceCommand, SliceNamesItsTraceAndItsLayers) {
  made("slice", {"--layers", "1:1", "--name", "mine"});
  const auto json = nlohmann::json::parse(content(scratch_.file("slice1/trace.json")));
  EXPECT_THAT(json.dump(), HasSubstr("\"name\":\"mine\""));
  EXPECT_THAT(run_moesim({"trace", "info", scratch_.file("slice1")}).out,
              HasSubstr("1 (model layers 1)"));
}

TEST_F(TraceCommand, LinksToThemselvesAreBadInput) {
  const std::string copied = scratch_.file("copied"), ids = copied + "/step-00000000/ids.npy";
  fs::copy(hand_trace, copied, fs::copy_options::recursive);
  fs::remove(ids);
  fs::create_symlink("ids.npy", ids);
  for (const char* command : {"info", "verify", "check"}) {
    const Outcome outcome = run_moesim({"trace", command, copied});
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("ids.npy: error: cannot be read: Too many levels"));
  }
  const std::string log = scratch_.file("loop.log");
  fs::create_symlink("loop.log", log);
  const Outcome of_log =
      run_moesim({"trace", "import", "counts", log, "-o", scratch_.file("x"), "--experts", "8"});
  EXPECT_EQ(of_log.code, 2);
  EXPECT_THAT(of_log.err, HasSubstr("loop.log: error: cannot be read: Too many levels"));
}

TEST_F(TraceCommand, RangesAreTwoWholeNumbers) {
  const auto refused = [&](const char* flag, const char* text) {
    const Outcome outcome = trace("slice", {"-o", scratch_.file("none"), flag, text});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(fs::exists(scratch_.file("none")));
    return outcome.err;
  };
  EXPECT_EQ(refused("--steps", "1"), "error: --steps: '1' is not of the form A:B\n");
  EXPECT_EQ(refused("--sequences", "1"), "error: --sequences: '1' is not of the form A:B\n");
  EXPECT_EQ(refused("--steps", "1:x"), "error: --steps: 'x' is not a whole number\n");
  EXPECT_EQ(refused("--steps", "1x:2"), "error: --steps: '1x' is not a whole number\n");
  EXPECT_EQ(refused("--steps", "0:-2"), "error: --steps: '-2' is not a whole number\n");
  EXPECT_EQ(refused("--steps", ":2"), "error: --steps: '' is not a whole number\n");
  EXPECT_EQ(refused("--steps", "0:99999999999"),
            "error: --steps: '99999999999' is not a whole number\n");
  EXPECT_EQ(refused("--layers", "a"), "error: --layers: 'a' is not a whole number\n");
  EXPECT_EQ(refused("--tokens", "0"), "error: a slice has at least one token\n");
}

TEST_F(TraceCommand, VerifyCountsWhatIsSound) {
  EXPECT_EQ(trace("verify", {}).out, hand_trace + ": sound, 2 steps, 16 tokens, 2 layers\n");
  EXPECT_EQ(trace("check", {}).out, "nothing suspicious\n");
}

TEST_F(TraceCommand, CheckComparesWithTheModelAndThePlanner) {
  std::string model = content(MOESIM_ROOT "/tests/cli/data/models/moe/hand.yaml");
  model.replace(model.find("top_k: 2"), 8, "top_k: 1")
      .replace(model.find("name: hand"), 10, "name: one");
  std::ofstream(scratch_.file("one.yaml")) << model;
  EXPECT_EQ(trace("check", {"--model", "hand"}).out, "nothing suspicious\n");
  EXPECT_EQ(trace("check", {"--model", scratch_.file("one.yaml")}).out,
            "suspicious  top-2 where one has top-1\n");
  EXPECT_EQ(trace("check", {"--interval", "1"}).out, "nothing suspicious\n");
  EXPECT_EQ(trace("check", {"--interval", "2"}).out,
            "suspicious  2 steps: a planner that first plans after 2 never does\n");
}

/// A copy of the hand-sized trace whose first array ends early.
TEST_F(TraceCommand, VerifyAndCheckTellADamagedTrace) {
  const std::string folder = scratch_.file("damaged");
  fs::copy(hand_trace, folder, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".json") {
      fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
      break;
    }
  }
  for (const char* command : {"verify", "check"}) {
    const Outcome outcome = run_moesim({"trace", command, folder});
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("error: ")) << command;
    EXPECT_EQ(outcome.out, "") << command;
  }
}

TEST_F(TraceCommand, InfoNamesPairsAndRanksAsAsked) {
  const auto info = [&](const std::vector<std::string>& more) { return trace("info", more).out; };
  const std::string two = info({"--ranks", "2,4", "--pairs", "1"});
  EXPECT_THAT(two, HasSubstr("steps                   2 (numbers 0 to 1)\n"));
  EXPECT_THAT(two, HasSubstr("\n     2          1.4062         1.4688         1.5000\n"
                             "     4          2.0000         1.5625         1.6250\n"));
  const auto pairs = [](const std::string& text) {
    int count = 0;
    for (auto at = text.find("  pair  "); at != std::string::npos;
         at = text.find("  pair  ", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(pairs(two), 1);
  EXPECT_EQ(pairs(info({"--pairs", "0"})), 0);
  EXPECT_EQ(pairs(info({"--pairs", "2"})), 2);
  const Outcome json = trace("info", {"--json", "-"});
  EXPECT_EQ(nlohmann::json::parse(json.out).is_object(), true);
  EXPECT_THAT(json.err, HasSubstr("gate weights            recorded\n"));
}

TEST_F(TraceCommand, ServeLaysRequestsOutBySeedAndRate) {
  const auto served = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--least", "1"});
    return made("serve", more);
  };
  const std::string all = served({"--batch", "8"});
  EXPECT_THAT(all, HasSubstr("8 requests, 8 at once at most; left out: 0 tokens in 0 steps with "
                             "fewer than 1\n"));
  EXPECT_THAT(made("serve", {"--batch", "8"}),
              HasSubstr("8 requests, 8 at once at most; left out: 0 tokens in 0 steps with fewer "
                        "than 8\n"))
      << "by default all that run at once";
  EXPECT_THAT(made("serve", {"--batch", "3"}), HasSubstr(" with fewer than 3\n"));
  const std::string seldom = served({"--batch", "8", "--rate", "0.1"});
  EXPECT_NE(seldom, all) << "they come one after the other";
  EXPECT_EQ(served({"--batch", "8", "--rate", "0.1", "--seed", "1"}), seldom);
  EXPECT_NE(served({"--batch", "8", "--rate", "0.1", "--seed", "2"}), seldom);
  std::ofstream(scratch_.file("at.txt")) << "0\n0\n0\n0\n0\n0\n0\n0\n";
  EXPECT_EQ(served({"--batch", "8", "--arrivals", scratch_.file("at.txt")}), all);
}

TEST_F(TraceCommand, ServeSaysThatTooFewRunAtOnce) {
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"-o", scratch_.file("none")});
    const Outcome outcome = trace("serve", more);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(refused({"--batch", "9"}),
            "error: never do 9 of 8 requests run at once\nhint: a smaller --batch, or --least\n");
}

/// Two steps of two tokens in layer 0, two of four experts each.
TEST_F(TraceCommand, ImportTakesAPhaseANameAndSizes) {
  const std::string log = scratch_.file("a.csv"), folder = scratch_.file("imported");
  std::ofstream(log) << "step,token,layer,experts\n0,0,0,\"0 1\"\n0,1,0,\"2 3\"\n1,0,0,\"1 2\"\n"
                        "1,1,0,\"0 3\"\n";
  const Outcome outcome = run_moesim({"trace", "import", "table", log, "-o", folder, "--experts",
                                      "4", "--phase", "decode", "--name", "mine"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string info = run_moesim({"trace", "info", folder}).out;
  for (const char* line : {"trace                   mine\n", "phase                   decode\n",
                           "experts                 4, top-2, ", "tokens                  4\n"}) {
    EXPECT_THAT(info, HasSubstr(line));
  }
}

TEST_F(TraceCommand, ImportSaysWhatItLacks) {
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"trace", "import"});
    more.insert(more.end(), {"-o", scratch_.file("none")});
    const Outcome outcome = run_moesim(more, {.folder = MOESIM_ROOT, .data = MOESIM_ROOT});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(fs::exists(scratch_.file("none")));
    return outcome.err;
  };
  EXPECT_EQ(refused({"npz"}), "error: INPUT is missing\nhint: a file or a folder\n");
  EXPECT_THAT(refused({"README.md"}),
              HasSubstr("error: 'README.md' is a file, and its kind must come before it\n"));
  EXPECT_EQ(refused({"table", "README.md", "--phase", "decoding"}),
            "error: 'decoding' is not a phase\nhint: known: training, prefill, decode, mixed, "
            "synthetic\n");
  EXPECT_THAT(refused({"table", "README.md", "--model", "llama-3-8b"}),
              HasSubstr("error: --model: the model 'llama-3-8b' is dense"));
  for (const auto& [flag, words] :
       std::vector<std::pair<std::string, std::string>>{{"--passes", "{prefill,decode}"},
                                                        {"--order", "{tlk,ltk}"},
                                                        {"--numbering", "{from-0,from-1,moe}"}}) {
    EXPECT_THAT(refused({"table", "README.md", flag, "x"}), HasSubstr("x not in " + words));
  }
}

}  // namespace
}  // namespace moesim
