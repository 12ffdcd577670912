// SPDX-License-Identifier: Apache-2.0
// What iterations get that say nothing of their software, and what wins over it.
#include "sim/model/software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_text.h"
#include "sim/scenario/software_inputs.h"
#include "sim/transport/transport.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Override> flags_with(const std::vector<std::string>& more) {
  std::vector<Override> flags;
  for (const char* flag : {"topology=h100-rail", "model=qwen3-30b-a3b", "policy=deepep-normal",
                           "batch.global=64", "batch.sequence=4096", "routing=balanced"}) {
    flags.push_back(parse_override(flag));
  }
  for (const std::string& change : more) {
    const bool input = change.starts_with("gpu.") || change.starts_with("software.");
    flags.push_back(input ? Override{"set", change, "--set " + change} : parse_override(change));
  }
  return flags;
}

Scenario scenario_with(const std::vector<std::string>& more) {
  return read_scenario("", flags_with(more));
}

GpuModel gpu_with(const std::vector<std::string>& more) {
  return *open_inputs(scenario_with(more)).clusters.at(0).gpus.at(0);
}

TEST(Software, IterationsAssumeMegatronCore) {
  const Scenario scenario = scenario_with({});
  EXPECT_EQ(scenario.software, "megatron-core");
  EXPECT_FALSE(scenario.software_stated);
  EXPECT_TRUE(scenario_with({"software=megatron-core"}).software_stated);
  EXPECT_EQ(scenario.gradient_bytes, 4);
  EXPECT_EQ(scenario.optimizer_bytes, 12);
  EXPECT_TRUE(scenario.iteration->overlap.gradients);
  EXPECT_TRUE(scenario.iteration->overlap.parameters);
  const GpuModel gpu = gpu_with({});
  EXPECT_EQ(gpu.training.at(DataType::bf16), 0.72);
  EXPECT_DOUBLE_EQ(gpu.host.per_kernel.value, 13.5e-6);
  EXPECT_EQ(gpu.overlap.communication, 1);  // no passes are merged
  EXPECT_EQ(gpu.sms, 132);
}

TEST(Software, HostsOfOtherCpusTakeLongerUnlessTheScenarioSaysWhatTheyTake) {
  const auto per_kernel = [](std::vector<std::string> more) {
    more.insert(more.end(), {"topology=gb200-nvl72", "batch.global=144"});
    return gpu_with(more).host.per_kernel.value;
  };
  EXPECT_DOUBLE_EQ(per_kernel({}), 2.6 * 13.5e-6);
  EXPECT_DOUBLE_EQ(per_kernel({"host={graphs: [attn]}"}), 2.6 * 13.5e-6);
  EXPECT_DOUBLE_EQ(per_kernel({"host.per_kernel=10us"}), 10e-6);
  EXPECT_DOUBLE_EQ(per_kernel({"software=ideal"}), 0);
}

TEST(Software, OnlyGpusWithFp4MultiplyMxfp8) {
  const auto warned = [](const std::vector<std::string>& more) {
    std::string text;
    for (const Diagnostic& d : open_inputs(scenario_with(more)).warnings) text += d.str();
    return text;
  };
  EXPECT_THAT(warned({"precision=mxfp8"}),
              AllOf(HasSubstr("warning: 'h100-measured' does not multiply mxfp8"),
                    HasSubstr("fp8 or fp8-blockwise")));
  EXPECT_THAT(warned({"precision=mxfp8"}), testing::StartsWith("warning: "));
  EXPECT_THAT(warned({"precision=mxfp8", "topology=heterogeneous", "batch.global=40"}),
              HasSubstr("'h100-measured', 'a100-measured', 'a800' do not multiply mxfp8"));
  EXPECT_EQ(warned({"precision=fp8"}), "");
  EXPECT_THAT(warned({"precision=mxfp8", "topology=gb200-nvl72", "batch.global=144"}),
              testing::Not(HasSubstr("mxfp8")));
}

TEST(Software, ModulesToRecomputeThatTheModelLacksAreTold) {
  const auto warned = [](const std::string& recompute) {
    std::string text;
    const Scenario scenario = scenario_with({"model=gpt-oss-20b", "recompute=" + recompute});
    for (const Diagnostic& d : open_inputs(scenario).warnings) text += d.str();
    return text;
  };
  EXPECT_EQ(warned("[layernorm, mlp, moe_act, shared_experts, core_attn]"),
            "warning: 'recompute': 'gpt-oss-20b' has nothing that mlp or shared_experts run again\n"
            "hint: leave it out\n");
  EXPECT_THAT(warned("mla_up_proj"), HasSubstr("has nothing that mla_up_proj runs again"));
  EXPECT_EQ(warned("full"), "");
}

TEST(Software, KeepsNoMoreThanThePeak) {
  EXPECT_NO_THROW(gpu_with({"software.kept.gh100.bf16=1.05"}));
  const std::string error = error_of([] { gpu_with({"software.kept.gh100.bf16=2"}); });
  EXPECT_THAT(error,
              HasSubstr("'efficiency.training.bf16' is 2: products would run at 1.66 times"));
  EXPECT_EQ(error.find("error:"), error.rfind("error:"));
  const std::string range = error_of([] { gpu_with({"software.kept.gh100.bf16=3"}); });
  EXPECT_THAT(range, HasSubstr("'kept.gh100.bf16' is 3, must be between 0.01 and 2"));
  EXPECT_EQ(range.find("error:"), range.rfind("error:")) << "it is said once";
}

TEST(Software, TorchTitanKeepsGatheredWeightsInPipelines) {
  const auto zero = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"software=torchtitan"};
    all.insert(all.end(), more.begin(), more.end());
    return scenario_with(all).iteration->zero;
  };
  EXPECT_EQ(zero({}), 3);
  EXPECT_EQ(zero({"parallel.pp=2"}), 2);
  EXPECT_EQ(zero({"parallel.pp=2", "zero=3"}), 3);
}

/// HybridEP's iterations: fp32 on units without tensor cores, nothing shared among replicas.
TEST(Software, PytorchDdpSharesNothing) {
  const Scenario scenario = scenario_with({"software=pytorch-ddp", "precision=fp32"});
  EXPECT_EQ(scenario.gradient_bytes, 4);
  EXPECT_EQ(scenario.optimizer_bytes, 8);
  EXPECT_EQ(scenario.iteration->zero, 0);
  EXPECT_TRUE(scenario.iteration->overlap.gradients);
  EXPECT_FALSE(scenario.iteration->overlap.parameters);
  EXPECT_EQ(scenario.iteration->precision.format, TrainingPrecision::fp32);
  const Scenario again = parse_scenario(to_text(scenario), "again.yaml", {});
  EXPECT_EQ(again.iteration->precision.format, TrainingPrecision::fp32);
  const GpuModel gpu = gpu_with({"software=pytorch-ddp", "precision=fp32"});
  EXPECT_EQ(gpu.training.at(DataType::fp32), 0.72) << "as of bf16: nobody measured it";
}

TEST(Software, StepsHaveNone) {
  std::vector<Override> flags;
  for (const char* flag : {"topology=h100-rail", "model=gpt-oss-20b", "policy=megatron",
                           "trace=traces/tiny-moe-train"}) {
    flags.push_back(parse_override(flag));
  }
  const Inputs inputs = open_inputs(read_scenario("", flags));
  EXPECT_TRUE(inputs.software_file.name.empty());
  EXPECT_TRUE(inputs.clusters.at(0).gpus.at(0)->training.empty());
  flags.push_back(parse_override("software=ideal"));
  EXPECT_THROW(read_scenario("", flags), Error);
}

TEST(Software, WhatAScenarioSaysWins) {
  const Scenario scenario =
      scenario_with({"gradient_bytes=2", "overlap.gradients=false", "host=none"});
  EXPECT_EQ(scenario.gradient_bytes, 2);
  EXPECT_FALSE(scenario.iteration->overlap.gradients);
  EXPECT_FALSE(scenario.iteration->overlap.parameters);  // there is nothing to gather during
  EXPECT_FALSE(gpu_with({"host=none"}).host.takes_time());
  // A host that says one thing keeps the rest.
  const HostModel host = gpu_with({"host.graphs=[attn]"}).host;
  EXPECT_DOUBLE_EQ(host.per_module.value, 23e-6);
  EXPECT_FALSE(host.graphs.empty());
  EXPECT_EQ(gpu_with({"gpu.efficiency.training.bf16=0.5"}).training.at(DataType::bf16), 0.5);
  EXPECT_EQ(gpu_with({"software.kept.gh100.bf16=0.6"}).training.at(DataType::bf16), 0.6);
  EXPECT_FALSE(scenario_with({"zero=0"}).iteration->overlap.parameters);
  EXPECT_FALSE(scenario_with({"software=pytorch-ddp", "zero=1"}).iteration->overlap.parameters);
}

TEST(Software, GpusThatNobodyMeasuredKeepWhatOthersDo) {
  const auto kept = [](const char* topology) {
    return gpu_with({std::string("topology=") + topology}).training.at(DataType::bf16);
  };
  EXPECT_EQ(kept("b200-hgx"), 0.82);
  EXPECT_EQ(kept("laer-a100"), 0.77);
  const Software software = read_software(data_file("models/software", "megatron-core"));
  EXPECT_TRUE(software.measured_on("gh100"));
  EXPECT_FALSE(software.measured_on("ga100"));
}

TEST(Software, MergedPassesAndGatheredParametersTakeMultiprocessors) {
  const std::vector<std::string> merged = {"parallel.pp=2", "parallel.ep=8",
                                           "pipeline=combined-1f1b"};
  EXPECT_EQ(gpu_with(merged).overlap.communication, 1.31);
  EXPECT_EQ(gpu_with(merged).sms, 100);
  EXPECT_EQ(gpu_with({"zero=3"}).overlap.communication, 1);
  EXPECT_EQ(gpu_with({"zero=3"}).sms, 100);
  const auto rings_of = [](const std::vector<std::string>& more) {
    return open_inputs(scenario_with(more)).systems.at(0).transports.others->sms;
  };
  EXPECT_EQ(rings_of({}), 0);
  EXPECT_EQ(rings_of({"zero=3"}), 16);
  EXPECT_EQ(rings_of(merged), 16);
  auto sms_of = [](const std::vector<std::string>& more) {
    return open_inputs(scenario_with(more)).systems.at(0).sms;
  };
  EXPECT_EQ(sms_of({}), 0);
  EXPECT_EQ(sms_of(merged), 20);
}

/// HybridEP takes the rank capacity as its bound and reads nothing; no other dispatch does.
TEST(Software, APagedStashLetsHybridEpRunWithoutItsHost) {
  const auto wait_of = [](const std::string& policy, const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"policy=" + policy};
    flags.insert(flags.end(), more.begin(), more.end());
    const Scenario scenario = scenario_with(flags);
    InputCache cache;
    std::string wait;
    for (const Override& change : changes_of_policy(scenario, policy, cache)) {
      if (change.path == "dispatch.host_wait" && wait.empty()) wait = change.value;
    }
    return wait;
  };
  EXPECT_THAT(wait_of("hybrid-ep", {}), HasSubstr("10 us"));
  EXPECT_THAT(wait_of("hybrid-ep", {"paged_stash={}"}), HasSubstr("0 us"));
  EXPECT_THAT(wait_of("hybrid-ep", {"paged_stash={}"}), testing::Not(HasSubstr("10 us")));
  EXPECT_THAT(wait_of("deepep-normal", {"paged_stash={}"}), HasSubstr("10 us"));
}

TEST(Software, IdealAddsNothing) {
  const GpuModel gpu = gpu_with({"software=ideal"});
  EXPECT_TRUE(gpu.training.empty());
  EXPECT_FALSE(gpu.host.takes_time());
  EXPECT_EQ(scenario_with({"software=ideal"}).gradient_bytes, 2);
}

TEST(Software, IsBasedOnAnotherAndPartOfTheHash) {
  const auto folder = std::filesystem::path(testing::TempDir());
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file((folder / (name + ".yaml")).string(), "name: " + name + "\nsource: t\n" + text);
    return (folder / (name + ".yaml")).string();
  };
  const std::string base = write("base", "gradient_bytes: 8\nkept: {gh100: {bf16: 0.9}}\n");
  const std::string derived = write("derived", "based_on: base.yaml\noptimizer_bytes: 6\n");
  const auto hash = [&] {
    return open_inputs(scenario_with({"software=" + derived})).software_file.hash;
  };
  EXPECT_EQ(scenario_with({"software=" + derived}).gradient_bytes, 8);
  EXPECT_EQ(gpu_with({"software=" + derived}).training.at(DataType::fp8), 0.9);
  const std::string before = hash();
  write("base", "gradient_bytes: 4\n");
  EXPECT_NE(hash(), before);
  write("base", "based_on: derived.yaml\n");
  EXPECT_THROW(read_software(derived), Error);
}

TEST(Software, MistakesAreSaidAtTheirPlace) {
  const auto mistake = [](const std::vector<std::string>& more) {
    return error_of([&] { scenario_with(more); });
  };
  EXPECT_THAT(mistake({"software=megatron-cor"}), HasSubstr("did you mean 'megatron-core'?"));
  EXPECT_THAT(mistake({"software.kept.gh100.bf16=3"}), HasSubstr("'kept.gh100.bf16' is 3"));
  EXPECT_THAT(mistake({"software.hots=none"}), HasSubstr("did you mean 'host'?"));
}

TEST(Software, WrittenDownAndReadAgainIsTheSame) {
  const Scenario scenario = scenario_with({"software=megatron-bridge"});
  const auto path = (std::filesystem::path(testing::TempDir()) / "software_again.yaml").string();
  write_file(path, to_text(scenario));
  const Scenario again = read_scenario(path, {});
  EXPECT_EQ(again.software, "megatron-bridge");
  EXPECT_EQ(again.iteration, scenario.iteration);
  EXPECT_EQ(again.gradient_bytes, 2);
}

}  // namespace
}  // namespace moesim
