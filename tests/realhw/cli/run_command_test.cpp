// SPDX-License-Identifier: Apache-2.0
// moesim-hw run: what it prints and writes of a cluster of one GPU, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "realhw/cli/measuring.h"
#include "sim/base/files.h"
#include "sim/scenario/executable_steps.h"
#include "tests/flags/said_by.h"
#include "tests/realhw/cli/hw_program.h"
#include "tests/realhw/nccl/thread_job.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;
using Json = nlohmann::json;

class HardwareRun : public HardwareInFolder {
 protected:
  Json json_in(const std::string& name) const { return Json::parse(read_file(in_folder(name))); }
};

HwSaid run_policies(const std::string& policies, const std::vector<std::string>& more = {}) {
  return said_by_hw(with(with(run_one_step(), {"--policy", policies}), more));
}

TEST_F(HardwareRun, PrintsTheHeaderAndALinePerPolicy) {
  const HwSaid said = run_policies("megatron,dedup");
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.job_ended);
  EXPECT_THAT(said.out, testing::StartsWith("# moesim-hw, "));
  EXPECT_THAT(said.out,
              AllOf(HasSubstr(" (p2p), 1 rank on 1 host, for h100-rail"), HasSubstr("\nmegatron "),
                    HasSubstr("\ndedup "), HasSubstr("#wrong\n"), HasSubstr("\nfc1-wgrad ")));
  EXPECT_THAT(said.err, AllOf(HasSubstr("warning: 'node.nvlink' joins nothing"),
                              HasSubstr("1 of 2: megatron\n2 of 2: dedup\n")));
  EXPECT_THAT(run_policies("megatron").err, Not(HasSubstr("1 of 1")));
}

TEST_F(HardwareRun, WritesWhatItMeasured) {
  EXPECT_EQ(run_policies("megatron,dedup", {"--json", in_folder("all")}).code, 0);
  const Json all = json_in("all");
  EXPECT_THAT(all["date"].get<std::string>(), testing::MatchesRegex("20..-..-..T..:..Z"));
  ASSERT_EQ(all["cases"].size(), 2);
  for (const Json& c : all["cases"]) {
    // the first and the last run of 4 tokens in one layer of 16 columns
    EXPECT_EQ(c["compared"]["outputs"], 2 * 4 * 16);
    EXPECT_EQ(c["wrong"], 0);
    EXPECT_EQ(c["measured_steps"][0]["repeats_s"].size(), 1);
  }
  const auto flags = {"--repeats", "3", "--warmup-runs", "2", "--check", "1"};
  EXPECT_EQ(said_by_hw(with(with({"run"}, one_step()),
                            with({"--policy", "dedup", "--json", in_folder("few")},
                                 {flags.begin(), flags.end()})))
                .code,
            0);
  const Json few = json_in("few");
  EXPECT_EQ(few["cases"][0]["compared"]["outputs"], 2 * 1 * 16);
  EXPECT_EQ(few["cases"][0]["measured_steps"][0]["repeats_s"].size(), 3);
}

TEST_F(HardwareRun, ReadsItsFlagsBeforeItMeasures) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--warmup-runs", "-1"}, "not in range 0 to 1000000"},
      {{"--repeats", "0"}, "not in range 1 to 1000000"},
      {{"--check", "-1"}, "not in range 0 to 1000000000"},
      {{"--set", "topology.node.gpus=4"}, "has 4 GPUs, but 1 process runs"},
      {{"--backend", "gpu"}, "--backend gpu is not known"},
      {{"--fault", "kill:fc1@1"}, "there is no rank 1"},
      {{"--fault", "kill:fc3@0"}, "rank 0 has no op 'fc3'"},
      {{"--json", "/no/such/folder/result"}, "there is no folder"},
      {{"--timeline", "/no/such/folder/timeline"}, "/no/such/folder/timeline"}};
  for (const auto& [words, message] : wrong) {
    const HwSaid said = said_by_hw(with(with({"run", "--policy", "dedup"}, one_step()), words));
    EXPECT_EQ(said.code, 2) << message;
    EXPECT_THAT(said.err, HasSubstr(message));
    EXPECT_THAT(said.out, Not(HasSubstr("#wrong\n"))) << message;
    EXPECT_FALSE(said.job_ended);
  }
  EXPECT_EQ(run_policies("dedup", {"--check", "0", "--set", "topology.nodes=1"}).code, 0);
}

TEST_F(HardwareRun, NamesPoliciesThatCannotRunHere) {
  for (const std::vector<std::string>& where : {std::vector<std::string>{}, {"--local"}}) {
    const HwSaid both = run_policies("megatron,hiermoe-hd3", where);
    EXPECT_EQ(both.code, 0);
    EXPECT_THAT(both.out, AllOf(HasSubstr("\nmegatron "), HasSubstr("\nhiermoe-hd3 ")));
    EXPECT_THAT(both.err, HasSubstr("hiermoe-hd3: error: 'dispatch.depth' is 3"));
    EXPECT_THAT(both.err, Not(HasSubstr("megatron: ")));
    const HwSaid none = run_policies("hiermoe-hd3", where);
    EXPECT_EQ(none.code, 2);
    EXPECT_THAT(none.out, Not(HasSubstr("#wrong\n")));
    EXPECT_THAT(none.err, HasSubstr("hiermoe-hd3: error: 'dispatch.depth' is 3"));
  }
}

std::vector<std::string> processes_of(const Json& timeline) {
  std::vector<std::string> names;
  for (const Json& e : timeline["traceEvents"]) {
    if (e["name"] == "process_name") names.push_back(e["args"]["name"]);
  }
  return names;
}

TEST_F(HardwareRun, TimelinesNamePoliciesWhereThereAreSeveral) {
  EXPECT_EQ(run_policies("megatron", {"--timeline", in_folder("one")}).code, 0);
  EXPECT_THAT(processes_of(json_in("one")), testing::Each(Not(HasSubstr("megatron"))));
  EXPECT_EQ(run_policies("megatron,dedup", {"--timeline", in_folder("two")}).code, 0);
  const auto names = processes_of(json_in("two"));
  EXPECT_THAT(names, testing::Contains(HasSubstr("megatron")));
  EXPECT_THAT(names, testing::Contains(HasSubstr("dedup")));
}

TEST_F(HardwareRun, InOneProcessTellsOnlyNumbers) {
  const HwSaid said = run_policies("megatron,dedup", {"--local"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, testing::StartsWith("# all ranks in one process on the CPU: only numbers"));
  EXPECT_THAT(said.out, testing::ContainsRegex("\nmegatron +1 +64 +64 +[0-9]+ +0\n"));
  EXPECT_THAT(said.out, testing::ContainsRegex("\ndedup +1 +64 +64 +[0-9]+ +0\n"));
  EXPECT_EQ(said.err, "");
  EXPECT_THAT(run_policies("dedup", {"--local", "--check", "1"}).out,
              testing::ContainsRegex("\ndedup +1 +16 +16 "));
}

TEST_F(HardwareRun, InOneProcessWantsOnlyOne) {
  testing::internal::CaptureStderr();
  const auto thrown = as_ranks(2, [](Job& job) {
    Measuring measuring;
    EXPECT_FALSE(measuring.compute(job).has_value());
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::StartsWith("error: --local runs all ranks in one process"));
  EXPECT_THAT(thrown, testing::Each(""));
}

/// A kernel that multiplies no row leaves weight gradients wrong.
TEST_F(HardwareRun, FailsWhenNumbersAreWrong) {
  const Scenario scenario = read_scenario("", {{"topology", "h100-rail", "t"},
                                               {"model", "tiny-moe", "m"},
                                               {"trace", MOESIM_ROOT "/traces/tiny-moe-train", "r"},
                                               {"policy", "[dedup, megatron]", "p"},
                                               {"steps", "'0'", "s"},
                                               {"tokens_per_rank", "4", "k"},
                                               {"layers", "[1]", "l"},
                                               {"set", "topology.nodes=1", "--set"},
                                               {"set", "topology.node.gpus=1", "--set"},
                                               {"set", "model.hidden=16", "--set"},
                                               {"set", "model.expert_ffn=8", "--set"}});
  const Inputs inputs = open_inputs(scenario);
  auto policies = plan_all(scenario, inputs, inputs.clusters[0]);
  for (Op& op : policies[1].steps[0].plan.ops) {
    if (op.key.kind != OpKind::fc1 || op.key.role != Role::wgrad) continue;
    auto gemm = std::get<GroupedGemm>(op.kernels()->of(0));
    std::ranges::fill(gemm.m, 0);
    op.work = Kernels(gemm);
  }
  write_file(in_folder("wrong"), pack_steps(origin_of(scenario, inputs, inputs.clusters[0], "1"),
                                            inputs.clusters[0].topology, policies));
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--local"}, {"--json", in_folder("result")}}) {
    const HwSaid said = said_by_hw(with({"run", "--saved", in_folder("wrong")}, where));
    EXPECT_EQ(said.code, 1);
    EXPECT_FALSE(said.job_ended);
    EXPECT_THAT(said.err, HasSubstr("moesim-hw: the run failed: "));
    EXPECT_THAT(said.out, AllOf(HasSubstr("\ndedup "), HasSubstr("\nmegatron ")));
  }
  EXPECT_GT(json_in("result")["cases"][1]["wrong"], 0);
  EXPECT_EQ(json_in("result")["cases"][0]["wrong"], 0);
}

TEST_F(HardwareRun, CountsWrongElementsOfAllPolicies) {
  std::vector<Numerics> numbers(2);
  numbers[0].compared.wrong_outputs = 3;
  numbers[1].compared.wrong_weight_gradients = 4;
  EXPECT_EQ(wrong_elements(numbers), 7);
  std::vector<Measured> measured(2);
  EXPECT_EQ(wrong_elements(measured), 0);
  measured[1].compared.wrong_bytes = 1;
  EXPECT_EQ(wrong_elements(measured), 1);
}

TEST_F(HardwareRun, ResultsThatCannotBeWrittenAreAFailure) {
  EXPECT_THAT(
      [&] { write_result(OutputFile(in_folder("none/result")), "{}"); },
      ThrowsMessage<std::runtime_error>(
          AllOf(testing::StartsWith("rank 0, writing the results: "), HasSubstr("none/result: "))));
  write_result(OutputFile(in_folder("result")), "{}");
  EXPECT_EQ(read_file(in_folder("result")), "{}");
}

TEST_F(HardwareRun, HelpTellsHowManyTokensAreCompared) {
  EXPECT_THAT(said_by_hw({"run", "--help"}).out, HasSubstr("(default: all)"));
  EXPECT_THAT(said_by_hw({"validate", "--help"}).out, HasSubstr("(default: 16)"));
  CommandLine none("prog", "");
  Measuring measuring;
  measuring.add_to(none, 0);
  EXPECT_THAT(said_by(none, {"--help"}), HasSubstr("(default: 0)"));
}

}  // namespace
}  // namespace moesim
