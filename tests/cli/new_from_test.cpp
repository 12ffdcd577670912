// SPDX-License-Identifier: Apache-2.0
// moesim new --from: scenarios of launch scripts, logs and YAML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const std::string launches = MOESIM_ROOT "/tests/fixtures/launch";
const Surroundings of_the_sources{.data = MOESIM_ROOT};

std::vector<std::string> from_words(const std::string& scenario, const std::string& launch,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"new",        scenario,    "--from",  launch,
                                    "--topology", "h100-rail", "--trace", "drawn"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The scenario of a launch, without comments.
std::string scenario_of(const std::string& launch) {
  const Scratch scratch;
  const std::string file = scratch.file("s.yaml");
  const Outcome outcome = run_moesim(from_words(file, launches + "/" + launch), of_the_sources);
  EXPECT_EQ(outcome.code, 0) << launch << outcome.err;
  return outcome.code == 0 ? content(file) : "";
}

TEST(NewFrom, TakesADenseModelThatItsHintNames) {
  const Scratch scratch;
  const std::string launch = scratch.file("a.sh"), file = scratch.file("s.yaml");
  std::ofstream(launch) << "vllm serve meta-llama/Llama-3.3-70B --tensor-parallel-size 8\n";
  const Outcome refused = run_moesim(from_words(file, launch), of_the_sources);
  EXPECT_THAT(refused.err, HasSubstr("--model llama-3-70b is the nearest name"));
  const Outcome taken =
      run_moesim(from_words(file, launch, {"--model", "llama-3-70b"}), of_the_sources);
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(content(file), HasSubstr("\nmodel: llama-3-70b "));
}

TEST(NewFrom, EveryLaunchOpens) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(launches)) {
    const std::string text = scenario_of(entry.path().filename().string());
    EXPECT_THAT(text, HasSubstr("\ntopology: h100-rail ")) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 15);
}

TEST(NewFrom, SaysWhatTheLaunchSays) {
  EXPECT_THAT(scenario_of("gpt-oss-16.sh"),
              testing::AllOf(HasSubstr("\nmodel: gpt-oss-20b "), HasSubstr("\npolicy: megatron\n"),
                             HasSubstr("\nparallel: {tp: 1, pp: 2, ep: 8}\n"),
                             HasSubstr("\nbatch: {global: 64, micro: 1, sequence: 4096}\n"),
                             HasSubstr("\nrecompute: [moe_act, layernorm]\n"),
                             HasSubstr("'topology.nodes=2'")));
  EXPECT_THAT(
      scenario_of("vllm-wide.sh"),
      testing::AllOf(HasSubstr("\nmodel: qwen3-235b-a22b "),
                     HasSubstr("\npolicy: deepep-low-latency\n"), HasSubstr("\n  kv: fp8\n"),
                     HasSubstr("placement={kind: vllm, interval: 2000, window: 1000, "
                               "slots_per_gpu: 10}"),
                     HasSubstr("# assumed: $@ in line 7 is empty")));
  EXPECT_THAT(scenario_of("llama-8.sh"),
              testing::AllOf(testing::Not(HasSubstr("synth")),
                             HasSubstr("# not simulated: --tp-comm-overlap\n")));
}

TEST(NewFrom, WhatItWritesRuns) {
  for (const char* launch : {"gpt-oss-16.sh", "llama-8.sh", "vllm-docker.sh", "trtllm-8.yaml"}) {
    const Scratch scratch;
    const std::string file = scratch.file("s.yaml");
    const Outcome written = run_moesim(from_words(file, launches + "/" + launch), of_the_sources);
    ASSERT_EQ(written.code, 0) << written.err;
    const Outcome run =
        run_moesim({"compare", file, "--fidelity", "analytic", "--memory", "ignore", "--quiet"},
                   of_the_sources);
    EXPECT_EQ(run.code, 0) << launch << run.err;
  }
}

TEST(NewFrom, CountsWhatItAssumes) {
  const Scratch scratch;
  const Outcome outcome = run_moesim(from_words("s.yaml", launches + "/deepseek-v3-256.sh"),
                                     {.folder = scratch.path(), .data = MOESIM_ROOT});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, launches +
                             "/deepseek-v3-256.sh: 1 assumption, 1 argument not simulated; "
                             "comments of s.yaml name them\n");
}

TEST(NewFrom, FlagsFillInAndOverride) {
  const Scratch scratch;
  const Surroundings there{.folder = scratch.path(), .data = MOESIM_ROOT};
  const std::string launch = launches + "/gpt-oss-16.sh";
  EXPECT_THAT(run_moesim({"new", "a.yaml", "--from", launch}, there).err,
              HasSubstr("--topology, --trace would answer"));
  EXPECT_THAT(
      run_moesim(from_words("a.yaml", launch, {"--for", "serving"}), there).err,
      HasSubstr("--for serving with --from " + launch + ", which is a launch for training"));
  EXPECT_EQ(run_moesim(from_words("a.yaml", launch, {"--model", "gpt-oss-120b"}), there).code, 0);
  EXPECT_THAT(content(scratch.file("a.yaml")),
              HasSubstr("# assumed: model: gpt-oss-120b in place of the launch's: layers 36 (the "
                        "launch: 24), experts 128 (the launch: 32)\n"));
  const Outcome dense = run_moesim(
      {"new", "b.yaml", "--from", launches + "/llama-8.sh", "--topology", "h100-rail"}, there);
  EXPECT_EQ(dense.code, 0) << "no trace is played" << dense.err;
}

TEST(NewFrom, MistakesLeaveNothing) {
  const Scratch scratch;
  const Surroundings there{.folder = scratch.path(), .data = MOESIM_ROOT};
  const auto error = [&](const std::string& script) {
    std::ofstream(scratch.file("a.sh")) << script;
    const Outcome outcome = run_moesim(from_words("s.yaml", "a.sh"), there);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(std::filesystem::exists(scratch.file("s.yaml")));
    return outcome.err;
  };
  EXPECT_EQ(error("vllm serve \\\n  foo/Bar -tp 8\n"),
            "a.sh:2: error: the model 'foo/Bar' is not shipped\n"
            "hint: moesim model import config.json -o my-model.yaml makes a model of any Hugging "
            "Face config; then --model my-model.yaml\n");
  EXPECT_THAT(error("vllm serve openai/gpt-oss-20b -tp $N\n"),
              testing::StartsWith("a.sh:1: error: '-tp $N': its value is not known, as nothing in "
                                  "the file sets N\n  vllm serve openai/gpt-oss-20b -tp $N\n"));
  EXPECT_THAT(error("ls\n"), HasSubstr("nothing in it launches a known software"));
  EXPECT_THAT(error(""), HasSubstr("nothing in it launches a known software"));
  EXPECT_THAT(error(std::string("\xff\xfe", 2)), HasSubstr("a.sh"));
  EXPECT_THAT(run_moesim(from_words("s.yaml", "none.sh"), there).err, HasSubstr("none.sh"));
}

}  // namespace
}  // namespace moesim
