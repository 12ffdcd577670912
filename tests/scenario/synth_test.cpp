// SPDX-License-Identifier: Apache-2.0
// Scenarios whose routing is drawn: what `synth` says, what the model says, and what wins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "sim/base/files.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/scenario/scenario_text.h"
#include "sim/trace/synth/synth_reader.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string without_trace = R"(topology: h100-rail
model: tiny-moe
policy: megatron
set: [topology.nodes=1]
)";

class SynthTest : public testing::Test {
 protected:
  SynthTest() : folder_(testing::TempDir() + "/synth-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~SynthTest() override {
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  Scenario read(const std::string& more, const std::vector<Override>& flags = {}) const {
    write_file(folder_ + "/s.yaml", without_trace + more);
    return read_scenario(folder_ + "/s.yaml", flags);
  }
  std::string folder_;
};

TEST_F(SynthTest, ModelSaysWhatIsLeftOut) {
  const Scenario s = read("synth: {tokens: 64, sequences: 8, skew: 0.5, seed: 7}\n");
  const Inputs inputs = open_inputs(s);
  EXPECT_EQ(inputs.trace.info().experts, inputs.model.experts);
  EXPECT_EQ(inputs.trace.info().top_k, inputs.model.top_k);
  EXPECT_EQ(inputs.trace.info().layers, inputs.model.moe_layers);
  EXPECT_EQ(inputs.trace_file().name, "synthetic routing (skew 0.5, seed 7)");
  EXPECT_EQ(inputs.clusters[0].batches.tokens_per_rank, 8);  // 64 on 8 GPUs
  for (const Diagnostic& d : inputs.warnings) EXPECT_THAT(d.str(), Not(HasSubstr("layers")));
}

TEST_F(SynthTest, LayersAreThoseThatAreReplayed) {
  const auto layers = [&](const std::string& more) {
    return open_inputs(read(more)).trace.info().layers;
  };
  const auto all = open_inputs(read("synth: {tokens: 64, sequences: 8}\n")).model.moe_layers;
  ASSERT_GT(all.size(), 2u);
  EXPECT_THAT(layers("synth: {tokens: 64, sequences: 8}\nlayers: recorded\n"), ElementsAre(all[0]));
  EXPECT_THAT(layers("synth: {tokens: 64, sequences: 8, layers: 2}\n"),
              ElementsAre(all[0], all[1]));
  EXPECT_THAT(layers("synth: {tokens: 64, sequences: 8}\nlayers: [1]\n"), ElementsAre(1));
  EXPECT_THAT(error_of([&] { layers("synth: {layers: 900}\n"); }),
              HasSubstr("s.yaml:5: error: 'synth': 900 layers, and the model 'tiny-moe' has"));
}

TEST_F(SynthTest, AnEmptyOneFillsTheUsualCluster) {
  const Scenario s = read("synth: {}\n");
  EXPECT_EQ(s.synth->tokens, 32768);
  EXPECT_EQ(s.synth->sequences, 256);
  EXPECT_EQ(read("synth: {tokens: 64}\n").synth->sequences, 1);
  EXPECT_EQ(read("synth: {tokens: 64, sequences: 8}\n").synth->sequences, 8);
}

TEST_F(SynthTest, SetChangesHowItIsDrawn) {
  const Scenario s = read("synth: {tokens: 64, skew: 0.5}\n", {{"set", "synth.skew=1", ""}});
  EXPECT_DOUBLE_EQ(s.synth->skew, 1);
  EXPECT_EQ(s.synth->tokens, 64);
  EXPECT_TRUE(s.set.empty() || s.set[0].path != "synth.skew");
}

TEST_F(SynthTest, AFlagWinsOverTheFile) {
  const std::string trace = "trace: tiny-moe-train\n", synth = "synth: {tokens: 64}\n";
  EXPECT_FALSE(read(synth, {{"trace", "tiny-moe-train", "--trace"}}).synth);
  EXPECT_TRUE(read(trace, {{"synth.skew", "1", "--synth"}}).synth);
  EXPECT_THAT(error_of([&] { read(trace + synth); }),
              HasSubstr("s.yaml:6:8: error: 'synth' draws a trace, and 'trace' names one"));
  EXPECT_THAT(error_of([&] {
                read("", {{"trace", "t", "--trace t"}, {"synth.skew", "1", "--synth skew=1"}});
              }),
              HasSubstr("leave one of them out"));
}

TEST_F(SynthTest, MistakesHaveTheirPlace) {
  EXPECT_THAT(error_of([&] { read("synth: {skw: 1}\n"); }),
              testing::AllOf(HasSubstr("s.yaml:5"), HasSubstr("did you mean 'skew'?")));
  EXPECT_THAT(error_of([&] {
                open_inputs(read("synth: {experts: 3, top_k: 1, tokens: 64, sequences: 8}\n"));
              }),
              testing::AllOf(HasSubstr("s.yaml:5: error: 'synth': 3 experts"),
                             HasSubstr("leave synth.experts out")));
  EXPECT_THAT(error_of([&] { open_inputs(read("synth: {groups: 3}\n")); }),
              HasSubstr("s.yaml:5: error: 32 experts do not make 3 equal groups"));
}

TEST_F(SynthTest, IsReadBackAsItWas) {
  const Scenario s = read(
      "synth: {experts: 32, top_k: 4, layers: 3, tokens: 96, sequences: 12, steps: 4, skew: 0.5,"
      " affinity: 0.25, communities: 2, stickiness: 0.1, drift: 0.05, groups: 4, kept_groups: 2,"
      " seed: 9}\n");
  write_file(folder_ + "/again.yaml", to_text(s));
  const Scenario again = read_scenario(folder_ + "/again.yaml", {});
  ASSERT_TRUE(again.synth);
  EXPECT_EQ(synth_text(*again.synth), synth_text(*s.synth));
  EXPECT_THAT(to_text(s), Not(HasSubstr("\"trace\"")));
  EXPECT_EQ(open_inputs(again).trace.hash(), open_inputs(s).trace.hash());
}

TEST_F(SynthTest, IterationsPlayIt) {
  const Scenario s = read(
      "synth: {tokens: 512, sequences: 8, layers: 2}\nparallel: {ep: 8}\n"
      "batch: {global: 8, sequence: 64}\n");
  EXPECT_TRUE(s.plays_choices());
  EXPECT_EQ(open_inputs(s).trace.total_tokens(), 512);
}

}  // namespace
}  // namespace moesim
