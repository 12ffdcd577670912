// SPDX-License-Identifier: Apache-2.0
// moesim compare and run on the hand-sized trace: the table, the JSON, and that both repeat
// exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> compare(std::vector<std::string> more) {
  return on_hand_trace("compare", "pair", {"megatron", "dedup"}, more);
}

/// Without the first line, which holds the version.
TEST(Compare, PrintsATable) {
  const Outcome outcome = run_moesim(compare({"--fidelity", "analytic"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, testing::StartsWith("# moesim "));
  expect_golden(MOESIM_ROOT "/tests/cli/golden/compare.txt", without_version(outcome.out));
}

// Step 0, layer 0: rank 0 holds tokens 0 1 4 5 and experts 0 1, rank 1 the others. Rank 0 sends two
// copies and rank 1 five. Token 3 wants both experts of rank 0, so with one copy for both rank 1
// sends four. Rows are 2,000 bytes, there and back.
TEST(Compare, SendsTheCopiesCountedByHand) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  const Outcome outcome = run_moesim(compare({"--fidelity", "analytic", "--pass", "forward",
                                              "--steps", "0", "--layers", "0", "--json", file}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json cases = Json::parse(content(file))["cases"];
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0]["total"]["traffic"]["other_host_bytes"], 7 * 2 * 2000);
  EXPECT_EQ(cases[1]["total"]["traffic"]["other_host_bytes"], 6 * 2 * 2000);
  for (const Json& c : cases) EXPECT_EQ(c["total"]["traffic"]["same_host_bytes"], 0);
}

// A result has the parameters of its drawn routing, those of the model included, and its hash.
TEST(Compare, SaysWhatItsRoutingWasDrawnFrom) {
  const Scratch scratch;
  ::setenv("XDG_CACHE_HOME", scratch.file("cache").c_str(), 1);
  const auto drawn = [&](const std::string& seed) {
    const Outcome outcome = run_moesim(
        {"compare", "--topology", "two-by-two", "--model", "hand", "--policy", "megatron",
         "--synth", "tokens=64,sequences=8,skew=0.5,seed=" + seed, "--json", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr("# trace synthetic routing (skew 0.5, seed "));
    return Json::parse(outcome.out)["trace"];
  };
  const Json seven = drawn("7");
  EXPECT_EQ(seven["synth"]["experts"], 4);
  EXPECT_EQ(seven["synth"]["layers"], 2);
  EXPECT_EQ(seven["synth"]["seed"], 7);
  EXPECT_EQ(seven, drawn("7"));
  EXPECT_NE(seven["xxh3"], drawn("8")["xxh3"]);
  ::unsetenv("XDG_CACHE_HOME");
}

TEST(Compare, RepeatsExactlyWithAnyWorkersAndFromAnyFolder) {
  const Scratch scratch;
  const auto result = [&](const std::string& workers, const fs::path& folder) {
    const std::string file = scratch.file("r.json");
    fs::remove(file);
    const Outcome outcome =
        run_moesim(compare({"--topology", "two-by-two", "--fidelity", "port", "--fidelity", "flow",
                            "--workers", workers, "--json", file}),
                   {.folder = folder});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return content(file) + outcome.out;
  };
  const std::string first = result("1", MOESIM_ROOT);
  EXPECT_THAT(first, testing::HasSubstr("\"cases\""));
  EXPECT_EQ(first, result("1", MOESIM_ROOT));
  EXPECT_EQ(first, result("2", MOESIM_ROOT));
  EXPECT_EQ(first, result("2", scratch.path()));
}

TEST(Compare, FlagsWinAndChangesAddUp) {
  const Scratch scratch;
  std::ofstream(scratch.file("s.yaml")) << "topology: pair\nmodel: hand\npolicy: megatron\n"
                                           "fidelity: analytic\nset: [model.hidden=500]\n"
                                           "trace: " MOESIM_ROOT "/tests/fixtures/traces/hand\n";
  const std::string file = scratch.file("r.json");
  const Outcome outcome =
      run_moesim({"compare", scratch.file("s.yaml"), "--policy", "dedup", "--set",
                  "model.hidden=2000", "--set", "topology.exchange_overhead=1 us", "--json", file});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json result = Json::parse(content(file));
  EXPECT_EQ(result["cases"][0]["policy"], "dedup");
  EXPECT_EQ(result["set"],
            Json({"model.hidden=500", "model.hidden=2000", "topology.exchange_overhead=1 us"}));
  EXPECT_THAT(outcome.out, testing::HasSubstr("hidden 2000"));  // the later wins
}

TEST(Compare, RefusesAResultFileThatCannotBeWritten) {
  const Scratch scratch;
  const std::pair<std::string, std::string> cases[] = {
      {scratch.file("no/r.json"),
       scratch.file("no/r.json") + ": error: there is no folder '" + scratch.file("no") + "'\n"},
      {scratch.path(), scratch.path().string() + ": error: is a folder, not a file\n"}};
  for (const auto& [file, message] : cases) {
    const Outcome outcome = run_moesim(compare({"--fidelity", "analytic", "--json", file}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, message);
    EXPECT_EQ(outcome.out, "");  // reported before the run, not after it
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

const std::string eplb = MOESIM_ROOT "/models/system/eplb.yaml";

std::vector<std::string> compare_with_eplb(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--fidelity", "analytic",    "--repeat",
                                    "6",          "--transport", "ideal"};
  words.insert(words.end(), more.begin(), more.end());
  return on_hand_trace("compare", "pair", {"dedup", eplb}, words);
}

// The trace makes 12 steps.
TEST(Compare, SaysWhatNeverPlanned) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  const auto cases = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--tokens-per-rank", "4", "--json", file};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(compare_with_eplb(words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::pair(outcome.out, Json::parse(content(file))["cases"]);
  };
  const auto [out, all] = cases({});
  EXPECT_THAT(out, testing::Not(testing::HasSubstr("# note: eplb")));
  EXPECT_EQ(all[0]["replans"], 0);
  EXPECT_EQ(all[1]["replans"], 1);
  const auto [never, few] = cases({"--steps", "0:10"});
  EXPECT_THAT(never, testing::HasSubstr("\n# note: eplb never planned: that first happens after 10 "
                                        "steps, the run has 10\n"));
  EXPECT_EQ(few[1]["replans"], 0);
  EXPECT_EQ(few[0]["notes"], Json::array());
  EXPECT_EQ(few[1]["notes"].size(), 1u);
  const auto [cold, late] = cases({"--steps", "1:12"});
  EXPECT_EQ(late[1]["replans"], 1);
  EXPECT_THAT(cold,
              testing::HasSubstr("\n# note: eplb started cold at step 1: no step before it was "
                                 "seen (--warmup 1 shows them)\n"));
}

TEST(Compare, LeavesWarmUpStepsOut) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  const auto eplb_steps = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--tokens-per-rank", "4", "--json", file};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(compare_with_eplb(words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find("# note: eplb"), std::string::npos) << outcome.out;
    return std::pair(outcome.out, Json::parse(content(file)));
  };
  const Json all = eplb_steps({}).second["cases"][1]["step_s_each"];
  ASSERT_EQ(all.size(), 12u);
  const auto [out, warm] = eplb_steps({"--warmup", "10"});
  EXPECT_THAT(out, testing::HasSubstr(
                       "2 steps of 4 tokens per rank, repeated 6x, 10 warm-up steps left out\n"));
  EXPECT_EQ(warm["clusters"][0]["warmup_steps"], 10);
  EXPECT_EQ(warm["cases"][1]["step_s_each"], Json({all[10], all[11]}));
  const auto [later, one] = eplb_steps({"--warmup", "20", "--steps", "11"});
  EXPECT_THAT(later, testing::HasSubstr(", 11 warm-up steps left out\n"));
  EXPECT_EQ(one["cases"][1]["step_s_each"], Json::array({all[11]}));
}

TEST(Compare, RefusesAWarmUpThatLeavesNothing) {
  const Outcome outcome =
      run_moesim(compare_with_eplb({"--warmup", "12", "--tokens-per-rank", "4"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "error: 'warmup' is 12, and the trace makes 12 steps: none is left to count\n"
            "hint: a smaller tokens_per_rank, or repeat, makes more steps\n");
}

/// The header of a comparison on four GPUs in two EP groups, and its first case.
std::pair<std::string, Json> two_groups(const std::vector<std::string>& more) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  std::vector<std::string> words = {"--ep", "2", "--tokens-per-rank", "2", "--json", file};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run_moesim(on_hand_trace("compare", "two-by-two", {"dedup"}, words));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return {outcome.out, Json::parse(content(file))["cases"][0]};
}

// A GPU holds two of a layer's 4 experts of 3 M parameters: 12 MB of gradients each way, 2 layers.
TEST(Compare, SumsGradientsOverEpGroupsAsAccumulateSays) {
  const auto [every, each] = two_groups({});
  EXPECT_THAT(every, testing::HasSubstr(
                         "ep 2 (2 groups; expert gradients are summed over them every step)"));
  const auto bytes = [](const Json& c) {
    const Json& traffic = c["total"]["parameter_traffic"];
    return traffic["same_host_bytes"].get<std::int64_t>() +
           traffic["other_host_bytes"].get<std::int64_t>();
  };
  ASSERT_EQ(each["steps"], 2);
  EXPECT_EQ(bytes(each), 4LL * 2 * 2 * 12'000'000);
  EXPECT_GT(each["total"]["gradient_communication_s"], 0);
  EXPECT_THAT(every, testing::HasSubstr("grads"));
  const auto [second, half] = two_groups({"--accumulate", "2"});
  EXPECT_THAT(second, testing::HasSubstr("are summed over them in 1 of 2 steps)"));
  EXPECT_EQ(bytes(half), bytes(each) / 2);
  const auto [never, none] = two_groups({"--accumulate", "never"});
  EXPECT_THAT(never, testing::HasSubstr("(2 groups; sums of their expert gradients are left out)"));
  EXPECT_EQ(bytes(none), 0);
  EXPECT_THAT(never, testing::Not(testing::HasSubstr("grads")));
}

TEST(Compare, SaysWhatAllLayersOfTheModelWouldTake) {
  const std::vector<std::string> deep = {
      "--layers", "recorded",          "--set",      "model.moe_layers.count=4000",
      "--set",    "model.layers=4000", "--fidelity", "analytic"};
  const Outcome outcome = run_moesim(compare(deep));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("2 of the model's 4000 MoE layers replayed"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("all layers: of the model's 4000\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("B!\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex(
                               "# note: megatron, dedup would take [0-9.]+ [GT]B of experts and "
                               "activations with all MoE layers of the model; a GPU has"));
  std::vector<std::string> checked = deep;
  checked.insert(checked.end(), {"--memory", "model"});
  const Outcome refused = run_moesim(compare(checked));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              testing::ContainsRegex("needs [0-9.]+ [GT]B for all 4000 MoE layers of the model"));
}

TEST(Compare, SaysThatDecodedTokensAttendOnlyToThemselves) {
  const Scratch scratch;
  const fs::path trace = scratch.file("decoded");
  fs::copy(fs::path(MOESIM_ROOT) / "traces" / "tiny-moe-train", trace, fs::copy_options::recursive);
  std::string info = content((trace / "trace.json").string());
  const std::string training = "\"training\"";
  info.replace(info.find(training), training.size(), "\"decode\"");
  const auto header = [&](const std::string& attention) {
    return run_moesim({"compare", "--topology", "h100-rail", "--model", "gpt-oss-20b", "--policy",
                       "alltoall", "--trace", trace.string(), "--steps", "0", "--pass", "forward",
                       "--attention", attention},
                      {.data = MOESIM_ROOT})
        .out;
  };
  const auto note = testing::HasSubstr("# decode: every token attends only to itself");
  EXPECT_THAT(header("true"), testing::Not(note));
  std::ofstream(trace / "trace.json") << info;
  EXPECT_THAT(header("true"), note);
  EXPECT_THAT(header("false"), testing::Not(note));
}

TEST(Run, ShowsEveryLayer) {
  const Outcome outcome =
      run_moesim({"run", "--topology", "pair", "--model", "hand", "--trace",
                  MOESIM_ROOT "/tests/fixtures/traces/hand", "--policy", "dedup"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\nlayer .*\n0 .*\n1 .*\n"));
}

}  // namespace
}  // namespace moesim
