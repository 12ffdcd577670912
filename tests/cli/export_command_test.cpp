// SPDX-License-Identifier: Apache-2.0
// moesim export on the hand-sized trace: two GPUs with two experts each, contiguous.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

Outcome exported(const std::string& what, const std::vector<std::string>& more) {
  std::vector<std::string> line = on_hand_trace(what, "pair", {"dedup"}, more);
  line.insert(line.begin(), "export");
  return run_moesim(line);
}

TEST(ExportCommand, PlacementsAreThoseOfTheLastStep) {
  const Outcome vllm = exported("placement", {"--format", "vllm"});
  EXPECT_EQ(vllm.out, "{\"expert_to_ep_rank\":[0,0,1,1]}\n");
  EXPECT_EQ(vllm.err, "2 of 2 MoE layers as dedup has them in step 1\n");
  EXPECT_EQ(exported("placement", {"--format", "sglang"}).out,
            "{\"physical_to_logical_map\":[[0,1,2,3],[0,1,2,3]]}\n");
  EXPECT_EQ(exported("placement", {"--format", "vllm", "--steps", "0"}).err,
            "2 of 2 MoE layers as dedup has them in step 0\n");
  const Outcome unknown = exported("placement", {"--format", "nope"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'nope' is not a format of placements\nhint: known: "));
}

// Two groups of two GPUs, which have equal placements unless each balances its own loads.
TEST(ExportCommand, PlacementsAreThoseOfOneGroup) {
  const auto of_two_groups = [](const std::vector<std::string>& more) {
    std::vector<std::string> line = on_hand_trace("placement", "two-by-two", {"dedup"}, more);
    line.insert(line.begin(), "export");
    line.insert(line.end(), {"--ep", "2", "--format", "vllm"});
    return run_moesim(line);
  };
  EXPECT_EQ(of_two_groups({}).out, "{\"expert_to_ep_rank\":[0,0,1,1]}\n");
  EXPECT_EQ(of_two_groups({"--set", "policy:dedup.placement={kind: eplb, slots_per_gpu: 3}"}).err,
            "error: layer 0: the EP groups of GPUs 0 and 2 have different placements\n"
            "hint: engines take one placement: simulate one EP group\n");
}

TEST(ExportCommand, ChakraHasAFilePerRankAndNoOlderOnes) {
  const Scratch scratch;
  for (const char* old : {"c.2.et", "c.3.et", "c.5.et"}) std::ofstream(scratch.file(old)) << "old";
  const Outcome outcome = exported("chakra", {"-o", scratch.file("c")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" of 2 GPUs in " + scratch.file("c") + ".0.et to " +
                                     scratch.file("c") + ".1.et\n"));
  EXPECT_GT(fs::file_size(scratch.file("c.0.et")), 3U);
  EXPECT_GT(fs::file_size(scratch.file("c.1.et")), 3U);
  EXPECT_FALSE(fs::exists(scratch.file("c.2.et")));
  EXPECT_FALSE(fs::exists(scratch.file("c.3.et")));
  EXPECT_TRUE(fs::exists(scratch.file("c.5.et"))) << "it is not of a larger export of these";
}

TEST(ExportCommand, GoalSaysHowManyOpsItHas) {
  const Scratch scratch;
  const Outcome outcome = exported("goal", {"-o", scratch.file("g.goal")});
  EXPECT_THAT(outcome.out, testing::ContainsRegex("^[0-9]+ ops of 2 GPUs\n$"));
  EXPECT_THAT(content(scratch.file("g.goal")), HasSubstr("num_ranks 2"));
}

TEST(ExportCommand, TakesOnlyOneTopologyAndPolicy) {
  EXPECT_THAT(exported("goal", {"--policy", "megatron"}).err,
              HasSubstr("'export' takes one topology and one policy"));
}

// Over pcie, nic, nic, pcie of 10 GB/s each; the NICs' links add 2 us each.
TEST(ExportCommand, RankCostsAreMicrosecondsOfAMessage) {
  const auto costs = [](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"export", "rank-costs", "pair"};
    line.insert(line.end(), more.begin(), more.end());
    return run_moesim(line);
  };
  EXPECT_EQ(costs({}).out, "{\"rank_cost_matrix\":[[0.0,104.0],[104.0,0.0]]}\n");
  EXPECT_EQ(costs({"--size", "2 MB"}).out, "{\"rank_cost_matrix\":[[0.0,204.0],[204.0,0.0]]}\n");
  EXPECT_EQ(costs({"--set", "topology.node.nics.latency=3 us"}).out,
            "{\"rank_cost_matrix\":[[0.0,106.0],[106.0,0.0]]}\n");
  for (const char* size : {"1 B", "1000 TB"}) EXPECT_EQ(costs({"--size", size}).code, 0) << size;
  for (const char* size : {"0 B", "0.5 B", "1001 TB", "1", "many"}) {
    EXPECT_THAT(costs({"--size", size}).err, HasSubstr("' is not a size from 1 B to 1000 TB\n"));
  }
}

// Three groups of two GPUs, of which the last has loads of its own.
TEST(ExportCommand, AnyGroupMayHaveAnotherPlacement) {
  const Scratch scratch;
  std::string log = "step,token,sequence,layer,experts\n";
  for (int token = 0; token < 24; ++token) {
    const int of_step = token % 12;
    log += fmt::format("{},{},{},0,\"{} {}\"\n", token / 12, of_step, of_step / 2,
                       of_step < 8 ? 0 : 3, 1 + token % 2);
  }
  std::ofstream(scratch.file("t.csv")) << log;
  ASSERT_EQ(run_moesim({"trace", "import", "table", scratch.file("t.csv"), "-o", scratch.file("t"),
                        "--experts", "4"})
                .code,
            0);
  std::vector<std::string> line = {
      "export",     "placement",
      "--topology", "two-by-two",
      "--set",      "topology.nodes=3",
      "--model",    "hand",
      "--set",      "model.layers=1",
      "--set",      "model.moe_layers.count=1",
      "--trace",    scratch.file("t"),
      "--policy",   "dedup",
      "--ep",       "2",
      "--format",   "vllm",
      "--set",      "policy:dedup.placement={kind: eplb, slots_per_gpu: 3}"};
  EXPECT_THAT(run_moesim(line).err,
              HasSubstr("layer 0: the EP groups of GPUs 0 and 4 have different placements\n"));
  line.pop_back();
  line.pop_back();
  EXPECT_EQ(run_moesim(line).out, "{\"expert_to_ep_rank\":[0,0,1,1]}\n");
}

}  // namespace
}  // namespace moesim
