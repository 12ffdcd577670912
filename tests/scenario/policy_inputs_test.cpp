// SPDX-License-Identifier: Apache-2.0
// Policies of one scenario that differ in more than their files: their expert-parallel degree by
// default, keys of the scenario for one of them, and changes that not all have a key for.
#include "sim/scenario/policy_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "sim/base/files.h"
#include "sim/planner/iteration/iteration_spec.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string laer_steps = R"(topology: laer-a100
model: mixtral-8x7b-e8k2
synth: {tokens: 256, sequences: 32, layers: 1}
)";
const std::string laer_iterations = laer_steps + R"(parallel: {ep: 32}
batch: {global: 64, micro: 2, sequence: 16}
zero: 3
)";
const std::string with_megatron = R"(policy:
  - laer
  - {name: megatron, parallel: {tp: 8, etp: 1, ep: 8}, batch: {micro: 1}, zero: 1, recompute: [moe]}
)";

class PolicyInputsTest : public testing::Test {
 protected:
  PolicyInputsTest() : folder_(testing::TempDir() + "/own-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~PolicyInputsTest() override {
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  Scenario read(const std::string& text, const std::vector<Override>& flags = {}) const {
    write_file(folder_ + "/s.yaml", text);
    return read_scenario(folder_ + "/s.yaml", flags);
  }
  Inputs open(const std::string& text, const std::vector<Override>& flags = {}) const {
    const Scenario scenario = read(text, flags);
    return open_inputs(scenario);
  }
  std::string mistake(const std::string& text, const std::vector<Override>& flags = {}) const {
    return error_of([&] { open(text, flags); });
  }
  std::string folder_;
};

std::vector<int> degrees(const Scenario& scenario, const Inputs& inputs) {
  std::vector<int> list;
  for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
    list.push_back(view_of(scenario, inputs, p).inputs.clusters[0].ep);
  }
  return list;
}

TEST_F(PolicyInputsTest, ScenariosShareATransportUntilTheyChangeIt) {
  InputCache cache;
  const auto transport = [&](const std::vector<Override>& flags) {
    const std::string text = laer_steps + "policy: laer\ntransport: nccl-p2p\n";
    return open_shared_inputs(read(text, flags), cache).systems[0].transports.tokens;
  };
  const TransportPtr once = transport({});
  ASSERT_NE(once, nullptr);
  EXPECT_EQ(transport({{"tokens_per_rank", "8", ""}}), once);
  EXPECT_NE(transport({{"set", "transport.sms=3", ""}}), once);
}

TEST_F(PolicyInputsTest, ReplicasTakeTheClusterAndOthersAsManyRanksAsExperts) {
  const Scenario mixed = read(laer_steps + "policy: [laer, megatron, fsep-flexmoe, fsdp-ep]\n");
  const Inputs inputs = open_inputs(mixed);
  EXPECT_THAT(degrees(mixed, inputs), ElementsAre(32, 8, 32, 8));
  EXPECT_EQ(ep_text(inputs, 0), "#   ep 32: laer, fsep-flexmoe\n");
  // The same tokens for all, in the same steps.
  const ClusterInput& own = view_of(mixed, inputs, 0).inputs.clusters[0];
  EXPECT_EQ(own.batches.tokens_per_rank, inputs.clusters[0].batches.tokens_per_rank);
  EXPECT_EQ(own.first_step, inputs.clusters[0].first_step);
  EXPECT_EQ(&view_of(mixed, inputs, 0).inputs.trace.step(0), &inputs.trace.step(0));

  const Scenario alone = read(laer_steps + "policy: [laer, fsep-flexmoe]\n");
  const Inputs of_alone = open_inputs(alone);
  EXPECT_THAT(degrees(alone, of_alone), ElementsAre(32, 32));
  EXPECT_THAT(of_alone.own, IsEmpty());
}

TEST_F(PolicyInputsTest, AStatedDegreeIsThatOfAll) {
  for (const int ep : {8, 32}) {
    const Scenario stated =
        read(laer_steps + "policy: [laer, megatron]\nep: " + std::to_string(ep) + "\n");
    EXPECT_THAT(degrees(stated, open_inputs(stated)), ElementsAre(ep, ep));
  }
}

TEST_F(PolicyInputsTest, AChangeOfAllReachesThoseThatHaveTheKey) {
  const std::string policies = "policy: [laer, fsdp-ep, fsep-smartmoe, megatron]\n";
  const std::vector<Override> slots = {{"set", "policy.placement.slots=4", "--set"}};
  const Override text{"set", "policy.description=x", "--set"};  // all have it
  const Scenario scenario = read(laer_steps + policies, {text, slots[0]});
  const Inputs inputs = open_inputs(scenario);
  ASSERT_EQ(inputs.warnings.size(), 1U);
  EXPECT_EQ(inputs.warnings[0].message,
            "fsdp-ep, megatron have no such key: nothing is changed there");
  const Inputs without = open_inputs(read(laer_steps + policies, {text}));
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(inputs.system_files[p].hash == without.system_files[p].hash, p == 1 || p == 3) << p;
  }
  EXPECT_THAT(mistake(laer_steps + "policy: [fsdp-ep, megatron]\n", slots),
              HasSubstr("there is no 'slots' below the plain value 'fsdp-ep'"));
  EXPECT_THAT(mistake(laer_steps + "policy: [megatron]\n", slots),
              HasSubstr("there is no 'slots' below the plain value 'contiguous'"));
  EXPECT_THAT(mistake(laer_steps + policies, {{"set", "policy.placement.slots=none", "--set"}}),
              HasSubstr("'placement.slots'"));
}

TEST_F(PolicyInputsTest, AChangeOfAllMayFindNoKeyInTheFirst) {
  const Inputs inputs = open(laer_steps + "policy: [fsdp-ep, laer]\n",
                             {{"set", "policy.placement.slots=4", "--set"}});
  ASSERT_EQ(inputs.warnings.size(), 1U);
  EXPECT_EQ(inputs.warnings[0].str(),
            "--set policy.placement.slots=4: warning: fsdp-ep has no such key: nothing is changed "
            "there\n");
}

TEST_F(PolicyInputsTest, NoFileMakesAPolicyRunACommand) {
  const std::string command = "policy:alltoall.placement={kind: external, command: 'true'}";
  EXPECT_THAT(mistake(laer_steps + "policy: [laer, alltoall]\n", {{"set", command, "--set"}}),
              HasSubstr("alltoall: error: it runs a command: true\nhint: read it first"));
}

TEST_F(PolicyInputsTest, APolicyHasKeysOfItsOwnOverThoseOfAll) {
  const Scenario scenario = read(laer_iterations + with_megatron);
  EXPECT_THAT(scenario.policies, ElementsAre("laer", "megatron"));
  EXPECT_EQ(scenario.own.at(0), nullptr);
  const IterationSpec& all = *scenario.iteration;
  const IterationSpec& own = *scenario.own.at(1)->iteration;
  EXPECT_EQ(all.parallel, (ParallelSizes{.ep = 32}));
  EXPECT_EQ(own.parallel, (ParallelSizes{.tp = 8, .ep = 8, .etp = 1}));
  EXPECT_EQ(std::pair(all.zero, own.zero), std::pair(3, 1));
  EXPECT_EQ(std::pair(all.micro_batch, own.micro_batch), std::pair(2, 1));
  EXPECT_EQ(own.global_batch, all.global_batch);
  EXPECT_EQ(own.recompute, Recompute{RecomputeModule::moe});
  const Inputs inputs = open_inputs(scenario);
  EXPECT_THAT(degrees(scenario, inputs), ElementsAre(32, 8));
  EXPECT_THAT(inputs.warnings, IsEmpty());
  EXPECT_EQ(own_text(scenario),
            "#   megatron: tp 8, etp 1, ep 8, micro 1, zero 1, recompute [\"moe\"]\n");
}

TEST_F(PolicyInputsTest, FlagsSayTheSameAndWinOverTheFile) {
  const std::string text = laer_iterations + with_megatron;
  const Scenario scenario = read(text, {{"set", "scenario:megatron.zero=2", "--set"},
                                        {"set", "scenario:laer.parallel.ep=16", "--set"},
                                        {"set", "policy:megatron.dispatch=dedup", "--set"},
                                        {"zero", "0", "--zero 0"}});
  EXPECT_EQ(scenario.own.at(0)->iteration->parallel.ep, 16);
  EXPECT_EQ(scenario.own.at(0)->iteration->zero, 0);
  EXPECT_EQ(scenario.own.at(1)->iteration->zero, 2);
  // A flag that chooses policies leaves each the keys that the file has for it.
  const Scenario one = read(text, {{"policy", "megatron", "--policy megatron"}});
  EXPECT_THAT(one.own, IsEmpty());
  EXPECT_EQ(one.iteration->parallel.tp, 8);
  EXPECT_EQ(read(text, {{"policy", "laer", "--policy laer"}}).iteration->parallel.tp, 1);
}

TEST_F(PolicyInputsTest, WrittenDownAndReadAgainItIsTheSame) {
  const Scenario scenario = read(laer_iterations + with_megatron);
  const Scenario again = read(to_text(scenario));
  EXPECT_EQ(to_text(again), to_text(scenario));
  EXPECT_EQ(again.own.at(1)->iteration->parallel, scenario.own.at(1)->iteration->parallel);
  EXPECT_EQ(again.own.at(1)->iteration->recompute, scenario.own.at(1)->iteration->recompute);
}

TEST_F(PolicyInputsTest, UnequalTokensAreToldAndEqualOnesAreNot) {
  const std::string doubled = "policy: [laer, {name: megatron, ep: 8, batch: {global: 128}}]\n";
  const Inputs inputs = open(laer_iterations + doubled);
  ASSERT_EQ(inputs.warnings.size(), 1U);
  EXPECT_EQ(
      inputs.warnings[0].str(),
      "warning: an iteration of megatron has 2048 tokens, of the others 1024: compare tokens per "
      "second\nhint: batch.global times batch.sequence should be equal\n");
  const std::string halved =
      "policy: [laer, {name: megatron, ep: 8, batch: {global: 128, sequence: 8}}]\n";
  EXPECT_THAT(open(laer_iterations + halved).warnings, IsEmpty());
}

TEST_F(PolicyInputsTest, MistakesNameThePolicyAndTheKey) {
  EXPECT_THAT(mistake(laer_iterations + "policy: [laer, {name: megatron, layer: 3}]\n"),
              HasSubstr("unknown key 'layer'"));
  EXPECT_THAT(mistake(laer_iterations + "policy: [laer, {parallel: {tp: 8}}]\n"),
              HasSubstr("lacks the key 'name'"));
  EXPECT_THAT(mistake(laer_iterations + "policy: [laer, {name: megatron, zero: 7}]\n"),
              HasSubstr("policy megatron: zero=7"));
  const std::string plain = laer_iterations + "policy: [laer, megatron]\n";
  EXPECT_THAT(mistake(plain, {{"set", "scenario:megatron.warmup=1", "--set"}}),
              HasSubstr("a policy cannot have its own 'warmup'"));
  EXPECT_THAT(mistake(plain, {{"set", "scenario:megatorn.zero=1", "--set"}}),
              HasSubstr("no policy of the scenario is called 'megatorn'"));
  EXPECT_THAT(mistake(laer_steps + "policy: [laer, {name: megatron, parallel: {tp: 8}}]\n"),
              HasSubstr("batch"));
}

TEST_F(PolicyInputsTest, OfADispatchThatNeedsTheHostLeaveGraphs) {
  const auto graphs = [](const std::string& policies, const std::string& more = "",
                         const std::string& ep = "8") {
    const Scenario scenario = parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " + policies +
            "\nparallel: {ep: " + ep +
            "}\nserving: {engine: vllm, requests: {count: 4, rate: 1, input: 8, output: 4}}\n" +
            more,
        "serving.yaml", {});
    const Inputs inputs = open_inputs(scenario);
    std::vector<bool> all;
    for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
      const PolicyView view = view_of(scenario, inputs, p);
      all.push_back(!view.inputs.clusters.at(0).gpus.at(0)->host.graphs.empty());
      EXPECT_EQ(view.scenario.engine_run->engine.options.graph_sizes.empty(), !all.back());
    }
    return std::pair(all, graphs_text(scenario, inputs));
  };
  const std::string line = "#   deepep-normal: no CUDA graphs, as the host waits for its counts\n";
  EXPECT_EQ(graphs("deepep-normal"), std::pair(std::vector{false}, line));
  EXPECT_EQ(graphs("[deepep-low-latency, deepep-normal, alltoall]"),
            std::pair(std::vector{true, false, true}, line));
  EXPECT_EQ(graphs("[deepep-low-latency, deepep-normal]",
                   "set: [scenario:deepep-normal.serving.graphs=false]\n"),
            std::pair(std::vector{true, false}, std::string()));
  EXPECT_EQ(graphs("deepep-normal", "", "1"), std::pair(std::vector{true}, std::string()))
      << "a group of one dispatches nothing";
}

}  // namespace
}  // namespace moesim
