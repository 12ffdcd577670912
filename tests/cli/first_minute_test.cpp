// SPDX-License-Identifier: Apache-2.0
// The first minute: moesim without arguments, moesim new, moesim doctor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const Surroundings shipped_data{.data = MOESIM_ROOT};

std::vector<std::string> new_words(const std::string& file, const std::string& trace,
                                   const std::string& purpose) {
  return {"new",         file,      "--topology", "h100-rail", "--model",
          "gpt-oss-20b", "--trace", trace,        "--for",     purpose};
}

TEST(FirstMinute, WithoutArgumentsThreeThingsToTry) {
  const Outcome outcome = run_moesim({}, shipped_data);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* command : {"moesim compare quickstart", "moesim explore", "moesim new"}) {
    EXPECT_THAT(outcome.out, HasSubstr(command));
  }
}

TEST(FirstMinute, AnInputIsNotAScenario) {
  const Outcome outcome = run_moesim({"compare", "h100-rail"}, shipped_data);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "error: 'h100-rail' is a topology, not a scenario\nhint: --topology h100-rail\n");
  EXPECT_EQ(run_moesim({"compare", "eplb", "--fidelity", "analytic", "--quiet"}, shipped_data).code,
            0)
      << "it is both";
}

TEST(FirstMinute, WhatNewWritesRuns) {
  for (const char* purpose : {"step", "training", "serving"}) {
    for (const char* trace : {"tiny-moe-train", "drawn"}) {
      const Scratch scratch;
      const std::string file = scratch.file("mine.yaml");
      const Outcome written = run_moesim(new_words(file, trace, purpose), shipped_data);
      ASSERT_EQ(written.code, 0) << written.err;
      EXPECT_THAT(content(file), HasSubstr("# "));
      const Outcome run =
          run_moesim({"compare", file, "--fidelity", "analytic", "--quiet"}, shipped_data);
      EXPECT_EQ(run.code, 0) << purpose << " " << trace << "\n" << run.err << content(file);
    }
  }
}

TEST(FirstMinute, NewTakesFilesOfTheFolder) {
  const Scratch scratch;
  std::filesystem::copy_file(MOESIM_ROOT "/topologies/h100-rail.yaml", scratch.file("own.yaml"));
  const Surroundings there{.folder = scratch.path(), .data = MOESIM_ROOT};
  auto words = new_words("mine.yaml", "drawn", "step");
  words[3] = "own.yaml";
  const Outcome written = run_moesim(words, there);
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(content(scratch.file("mine.yaml")), HasSubstr("topology: own.yaml "));
  words[1] = "other.yaml";
  words[3] = "none.yaml";
  const Outcome missing = run_moesim(words, there);
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.yaml: neither a known name nor a file"));
}

/// The lines of a new scenario below its inputs.
std::string sizes_in_new(const std::string& purpose, const std::string& model,
                         const std::string& trace, const std::string& topology = "h100-rail") {
  const Scratch scratch;
  const Outcome outcome = run_moesim({"new", "s.yaml", "--topology", topology, "--model", model,
                                      "--trace", trace, "--for", purpose},
                                     {.folder = scratch.path(), .data = MOESIM_ROOT});
  EXPECT_EQ(outcome.out, "s.yaml is written. Now: moesim compare s.yaml\n") << outcome.err;
  std::string text;
  std::istringstream lines(content(scratch.file("s.yaml")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) text += line.substr(0, line.find("   #")) + "\n";
  }
  return text;
}

// 32 GPUs on 4 hosts, 32 experts; the shortest recorded step has 4096 tokens.
TEST(FirstMinute, NewFitsSizesToTheCluster) {
  const std::string inputs = "topology: h100-rail\nmodel: gpt-oss-20b\n";
  EXPECT_EQ(sizes_in_new("step", "gpt-oss-20b", "drawn"),
            inputs +
                "synth: {skew: 0.5, tokens: 65536, steps: 4}\n"
                "policy: [alltoall, deepep-normal, llep]\nep: 32\ntokens_per_rank: 2048\n"
                "layers: recorded\n");
  EXPECT_EQ(sizes_in_new("training", "gpt-oss-20b", "drawn"),
            inputs +
                "synth: {skew: 0.5, tokens: 32768, steps: 4}\n"
                "policy: [alltoall, llep, hecate]\nparallel: {pp: 2, ep: 8}\n"
                "batch: {global: 64, micro: 1, sequence: 4096}\n"
                "routing: [balanced, recorded]\nsteps: 0\n");
  EXPECT_EQ(sizes_in_new("serving", "gpt-oss-20b", "drawn"),
            inputs +
                "synth: {skew: 0.5, tokens: 32768, steps: 4}\n"
                "policy: [deepep-low-latency, megatron-allgather]\nparallel: {tp: 1, ep: 32}\n"
                "serving:\n  batch: {context: 4096, sequences: 64}\n  kv: bf16\n"
                "routing: [balanced, recorded]\nsteps: 0\n");
  EXPECT_THAT(sizes_in_new("training", "gpt-oss-20b", "drawn", "occult-a6000"),
              HasSubstr("parallel: {pp: 1, ep: 4}\nbatch: {global: 16, "))
      << "4 GPUs on one host";
  EXPECT_THAT(sizes_in_new("training", "gpt-oss-20b", "drawn", "explicit"),
              HasSubstr("parallel: {pp: 2, ep: 2}\nbatch: {global: 8, "))
      << "2 GPUs on each of two hosts";
  EXPECT_EQ(sizes_in_new("step", "tiny-moe", "tiny-moe-train"),
            "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\n"
            "policy: [alltoall, deepep-normal, llep]\nep: 32\ntokens_per_rank: 2048\n"
            "repeat: 16\nlayers: recorded\n");
}

// Paths have a slash or end in .yaml; of recordings, whatever is there. Other words are names.
TEST(FirstMinute, NewTellsPathsFromNames) {
  const Scratch scratch;
  const Surroundings there{.folder = scratch.path(), .data = MOESIM_ROOT};
  std::filesystem::create_directory(scratch.file("sub"));
  for (const char* name : {"plain", "sub/plain"}) {
    std::filesystem::copy_file(MOESIM_ROOT "/topologies/h100-rail.yaml", scratch.file(name));
  }
  auto words = new_words("a.yaml", "drawn", "step");
  words[3] = "plain";
  EXPECT_THAT(run_moesim(words, there).err, HasSubstr("--topology plain: neither a known name"));
  words[3] = "sub/plain";
  EXPECT_EQ(run_moesim(words, there).code, 0);
  std::filesystem::create_directory_symlink(MOESIM_ROOT "/traces/tiny-moe-train",
                                            scratch.file("recorded"));
  words = new_words("b.yaml", "recorded", "step");
  words[5] = "tiny-moe";
  EXPECT_EQ(run_moesim(words, there).code, 0);
  EXPECT_THAT(content(scratch.file("b.yaml")), HasSubstr("\ntrace: recorded "));
  words[1] = "c.yaml";
  words[7] = "absent";
  EXPECT_THAT(run_moesim(words, there).err, HasSubstr("--trace absent: neither a known name"));
}

// 2 GPUs of 2048 tokens are 819 times a recorded step of 5, and one token.
TEST(FirstMinute, NewRepeatsARecordingUntilThereIsEnough) {
  const Scratch scratch;
  const Surroundings there{.folder = scratch.path(), .data = MOESIM_ROOT};
  ASSERT_EQ(run_moesim({"trace", "synth", "-o", "short", "--model", "tiny-moe", "--layers", "4",
                        "--tokens", "5", "--sequences", "5", "--steps", "1"},
                       there)
                .code,
            0);
  std::string pair = content(MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml");
  pair.replace(pair.find("round\n"), 5, "h100-sxm");
  std::ofstream(scratch.file("pair.yaml")) << pair;
  const Outcome written = run_moesim({"new", "s.yaml", "--topology", "pair.yaml", "--model",
                                      "tiny-moe", "--trace", "short", "--for", "step"},
                                     there);
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(content(scratch.file("s.yaml")), HasSubstr("\nrepeat: 820 "));
}

TEST(FirstMinute, NewReplacesNothing) {
  const Scratch scratch;
  const std::string file = scratch.file("mine.yaml");
  ASSERT_EQ(run_moesim(new_words(file, "drawn", "step"), shipped_data).code, 0);
  const std::string before = content(file);
  const Outcome again = run_moesim(new_words(file, "drawn", "training"), shipped_data);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  EXPECT_EQ(content(file), before);
}

TEST(FirstMinute, NewSaysWhatItLacks) {
  const Scratch scratch;
  const Outcome silent = run_moesim({"new", scratch.file("a.yaml"), "--for", "step"}, shipped_data);
  EXPECT_EQ(silent.code, 2);
  EXPECT_THAT(silent.err, HasSubstr("--topology, --model, --trace would answer"));
  auto words = new_words(scratch.file("a.yaml"), "drawn", "stepp");
  const Outcome wrong = run_moesim(words, shipped_data);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'step'?"));
  words = new_words(scratch.file("a.yaml"), "tiny-moe-train", "step");
  words[5] = "deepseek-v3";  // has more experts than the recording
  EXPECT_EQ(run_moesim(words, shipped_data).code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FirstMinute, NewAsksOnATerminal) {
  const Scratch scratch;
  const auto asked = [&](const std::string& typed, const std::vector<std::string>& more) {
    std::vector<std::string> line = {"new", "mine.yaml"};
    line.insert(line.end(), more.begin(), more.end());
    std::filesystem::remove(scratch.file("mine.yaml"));
    return run_moesim(line, {.folder = scratch.path(), .data = MOESIM_ROOT, .typed = typed});
  };
  const Outcome all = asked("?\nh200\nh200-rail\n\n\nserving\n", {});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.err, testing::StartsWith("Which cluster? [h100-rail; ? lists all]   "));
  EXPECT_THAT(all.err, HasSubstr(", h100-rail, "));
  EXPECT_THAT(all.err, HasSubstr(" (or the path of a file)\nWhich cluster? ["));
  EXPECT_THAT(all.err, HasSubstr("] What for: a 'step' of MoE layers, "));
  EXPECT_THAT(content(scratch.file("mine.yaml")),
              testing::AllOf(HasSubstr("topology: h200-rail "), HasSubstr("model: gpt-oss-20b "),
                             HasSubstr("synth: "), HasSubstr("serving:\n")));
  const Outcome one =
      asked("drawn\n", {"--topology", "h100-rail", "--model", "gpt-oss-20b", "--for", "step"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.err, "Which routing: a recorded trace, or 'drawn'? [drawn; ? lists all] ");
  const Outcome ended = asked("\x04", {"--for", "step"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("no answer; nothing was written"));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("mine.yaml")));
}

/// What explore says until it can be opened in a browser, or ends.
std::string opened(const std::vector<std::string>& more) {
  const Scratch scratch;
  std::vector<std::string> line = {"explore", "--port", "0"};
  line.insert(line.end(), more.begin(), more.end());
  Running page(line, {.data = MOESIM_ROOT, .output = scratch.file("out")});
  for (int i = 0; i < 5000 && !page.members().empty(); ++i) {
    if (!content(scratch.file("out")).empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(page.pid(), SIGINT);
  const Outcome outcome = page.wait();
  return content(scratch.file("out")) + outcome.err;
}

TEST(FirstMinute, ExploreOpensAPageOrSaysWhatIsWrong) {
  EXPECT_THAT(opened({"nowhere"}), testing::StartsWith("error: no 'nowhere' in scenarios\n"));
  EXPECT_THAT(opened({"--topology", "h100-rail"}),
              testing::StartsWith("error: no scenario file, and no --model, --trace, --policy\n"));
  const std::string page = opened({});
  if (page.find("needs cpp-httplib") != std::string::npos) GTEST_SKIP() << page;
  EXPECT_THAT(page, testing::StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(page,
              HasSubstr("\nOpen this address in a browser on this machine; Ctrl-C ends it.\n"));
}

TEST(FirstMinute, DoctorFindsTheData) {
  const Outcome outcome = run_moesim({"doctor"}, shipped_data);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"topologies", "transports", "SimGrid", "D3", "cpp-httplib", "Python"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\nmodels/gpu +[0-9]+ files +-"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ntraces +[1-9][0-9]* recordings +-"));
}

TEST(FirstMinute, OneFileOfAKindIsEnough) {
  const Outcome outcome = run_moesim({"doctor"}, {});
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\nmodels/moe +1 file +-"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ntopologies +2 files +-"));
  EXPECT_THAT(outcome.err, HasSubstr("2 of what every simulation needs is not there"));
}

TEST(FirstMinute, NewSaysWhatItWrites) {
  const auto first_line = [](const std::string& purpose) {
    const Scratch scratch;
    run_moesim(new_words("s.yaml", "drawn", purpose),
               {.folder = scratch.path(), .data = MOESIM_ROOT});
    const std::string text = content(scratch.file("s.yaml"));
    return text.substr(0, text.find('\n'));
  };
  const std::string rest =
      " on 32 GPUs of h100-rail. moesim compare s.yaml runs it, moesim explore s.yaml shows it.";
  EXPECT_EQ(first_line("step"), "# A step of MoE layers" + rest);
  EXPECT_EQ(first_line("training"), "# A training iteration" + rest);
  EXPECT_EQ(first_line("serving"), "# A decode step of an engine" + rest);
}

TEST(FirstMinute, DoctorMissesTheData) {
  const Scratch empty;
  const Outcome outcome = run_moesim({"doctor"}, {.data = empty.path()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("6 of what every simulation needs is not there: is MOESIM_DATA "));
  for (const char* row : {"topologies +0 files +clusters by name", "models/moe +0 files +models by",
                          "models/system +0 files +policies", "models/gpu +0 files +GPUs",
                          "transports +0 files +measured", "scenarios +0 files +scenarios by name",
                          "traces +0 recordings +scenarios that replay the shipped recording"}) {
    EXPECT_THAT(outcome.out, testing::ContainsRegex(std::string("\n") + row));
  }
}

}  // namespace
}  // namespace moesim
