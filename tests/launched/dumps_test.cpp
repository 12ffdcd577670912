// SPDX-License-Identifier: Apache-2.0
// Arguments that programs print, and YAML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/launched/argument_dumps.h"
#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::ElementsAre;

const std::string dump_of_megatron =
    "using world size: 16\n"
    "------------------------ arguments ------------------------\n"
    "  bf16 ............................................ True\n"
    "  fp8 ............................................. None\n"
    "  tp_comm_overlap ................................. False\n"
    "  recompute_modules ............................... ['moe_act', 'layernorm']\n"
    "  tensor_model_parallel_size ...................... 2\n"
    "-------------------- end of arguments ---------------------\n"
    "  tensor_model_parallel_size ...................... 4\n";

/// The text with something before each line.
std::string prefixed(const std::string& prefix, const std::string& text) {
  std::string all = prefix;
  for (const char c : text) {
    all += c;
    if (c == '\n') all += prefix;
  }
  return all;
}

TEST(MegatronDump, WithWhatLaunchersPutBeforeLines) {
  for (const char* prefix :
       {"", "[rank0]: ", "0: ", "[2026-01-02 03:04:05] INFO ", "node-1: [1,0]<stdout>: "}) {
    const auto dump = megatron_dump(prefixed(prefix, dump_of_megatron), "a.log");
    ASSERT_TRUE(dump) << prefix;
    EXPECT_EQ(dump->find("tensor-model-parallel-size")->text(), "2") << prefix;
    EXPECT_EQ(dump->find("tensor-model-parallel-size")->line, 7);
    EXPECT_TRUE(dump->find("bf16")->values.empty());
    EXPECT_EQ(dump->find("fp8"), nullptr);
    EXPECT_EQ(dump->find("tp-comm-overlap")->text(), "false");
    EXPECT_THAT(dump->find("recompute-modules")->values, ElementsAre("moe_act", "layernorm"));
  }
  EXPECT_FALSE(megatron_dump("tensor_model_parallel_size ...... 2\n", "a.log"));
}

TEST(PythonDump, OfMappingsAndCalls) {
  const std::string log =
      "INFO 01-02 non-default args: {'model': 'a/b', 'tp': 8, 'on': True, 'off': False, 'none': "
      "None, "
      "'list': [1, 2], 'eplb_config': {'window_size': 1000, 'x': '},'}, 'odd': <A.b: 1>}\nnext\n";
  const auto dump = python_dump(log, "non-default args:", "a.log");
  ASSERT_TRUE(dump);
  EXPECT_EQ(dump->find("model")->text(), "a/b");
  EXPECT_EQ(dump->find("tp")->text(), "8");
  EXPECT_TRUE(dump->find("on")->values.empty());
  EXPECT_EQ(dump->find("off")->text(), "false");
  EXPECT_EQ(dump->find("none"), nullptr);
  EXPECT_THAT(dump->find("list")->values, ElementsAre("1", "2"));
  EXPECT_EQ(dump->find("eplb-config.window-size")->text(), "1000");
  EXPECT_EQ(dump->find("eplb-config.x")->text(), "},");
  EXPECT_EQ(dump->find("odd")->text(), "<A.b: 1>");
  const auto call = python_dump("x ServerArgs(a='b', c=4, d=[], e=(1, 2))", "ServerArgs", "a.log");
  EXPECT_EQ(call->find("a")->text(), "b");
  EXPECT_EQ(call->find("c")->text(), "4");
  EXPECT_EQ(call->find("d"), nullptr);
  EXPECT_THAT(call->find("e")->values, ElementsAre("1", "2"));
  EXPECT_FALSE(python_dump("nothing", "ServerArgs", "a.log"));
}

TEST(PythonDump, OfTextThatEndsOrNests) {
  EXPECT_EQ(python_items("{'a': 1, 'b").size(), 1U);
  EXPECT_EQ(python_items("{'a': [1, 2").front().values.size(), 2U);
  EXPECT_TRUE(python_items("").empty());
  EXPECT_TRUE(python_items(std::string(100'000, '{')).empty());
  python_items("{'a':" + std::string(100'000, '['));
}

TEST(YamlArguments, OfBridgeAndOfTheModelZoo) {
  const std::string bridge =
      "model:\n  num_layers: 24\n  hidden_size: 2880\n  num_moe_experts: 32\n  moe_router_topk: 4\n"
      "  tensor_model_parallel_size: 2\n  expert_model_parallel_size: 8\n  seq_length: 4096\n"
      "  expert_tensor_parallel_size: 1\n"
      "train: {global_batch_size: 64, micro_batch_size: 2}\n"
      "mixed_precision: bf16_with_mxfp8_mixed\ntrainer: {num_nodes: 2, devices: 8}\n";
  const Launched launched = launch_of_text(bridge, "a.yaml");
  EXPECT_EQ(values_in(launched, {"software", "parallel.tp", "parallel.ep", "parallel.etp",
                                 "batch.global", "batch.micro", "precision", "zero", "recompute"}),
            "megatron-bridge 2 8 1 64 2 mxfp8 - -");
  EXPECT_EQ(launched.gpus, 16);
  const std::string zoo =
      "ENV_VARS: {A: 1}\nMODEL_ARGS:\n  --tensor-model-parallel-size: 1\n  --num-layers: 24\n"
      "  --seq-length: 4096\n  --global-batch-size: 64\n  --bf16: true\n"
      "  --recompute-granularity: selective\n  --recompute-modules: [moe_act, layernorm]\n";
  EXPECT_EQ(values_in(launch_of_text(zoo, "b.yaml"), {"software", "recompute", "precision"}),
            "megatron-core [moe_act, layernorm] bf16");
  EXPECT_THAT(error_of([] { launch_of_text("a: 1\n", "c.yaml"); }),
              testing::HasSubstr("its keys are those of no known software"));
  EXPECT_THAT(error_of([] { launch_of_text("a: [1\n", "c.yaml"); }), testing::HasSubstr("c.yaml:"));
}

TEST(ContainerLogs, AreReadAsTheirLines) {
  std::string log;
  for (std::string line; const char c : dump_of_megatron) {
    line += c;
    if (c != '\n') continue;
    line.pop_back();
    log += "{\"log\":\"" + std::exchange(line, "") + "\\n\",\"stream\":\"stdout\"}\n";
  }
  EXPECT_THAT(error_of([&] { launch_of_text(log, "a.log"); }),
              testing::HasSubstr("nothing says the global batch"));
}

}  // namespace
}  // namespace moesim
