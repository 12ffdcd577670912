// SPDX-License-Identifier: Apache-2.0
// Flags and logs of vLLM, SGLang and TensorRT-LLM as keys of a scenario.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;

Launched launched_by(const std::string& script) { return launch_of_text(script + "\n", "a.sh"); }

TEST(VllmFlags, Degrees) {
  const auto degrees = [](const std::string& flags) {
    const Launched launched = launched_by("vllm serve m " + flags);
    return values_in(launched, {"parallel.tp", "parallel.ep", "parallel.etp", "policy"});
  };
  EXPECT_EQ(degrees("-tp 8"), "8 1 - megatron-allgather");
  EXPECT_EQ(degrees("-tp 4 -ep"), "4 4 - megatron-allgather");
  EXPECT_EQ(degrees("-tp 2 -dp 8"), "2 1 16 megatron-allgather");
  EXPECT_EQ(degrees("-dp=16 --enable-expert-parallel --all2all-backend deepep_low_latency"),
            "1 16 - deepep-low-latency");
  EXPECT_EQ(degrees("-dp 16 -ep --all2all-backend deepep_high_throughput"), "1 16 - deepep-normal");
  EXPECT_EQ(values_in(launched_by("export VLLM_ALL2ALL_BACKEND=mori\nvllm serve m -dp 8 -ep"),
                      {"policy"}),
            "mori");
  EXPECT_EQ(values_in(launched_by("VLLM_ALL2ALL_BACKEND=pplx vllm serve m -dp 8 -ep"), {"policy"}),
            "deepep-low-latency");
  EXPECT_THAT(error_of([] { launched_by("vllm serve m -dp 8 -ep --all2all-backend deepep_low"); }),
              HasSubstr("no all-to-all backend 'deepep_low' is known"));
  EXPECT_THAT(error_of([] { launched_by("vllm serve m \\\n  -tp 8 -pp 2"); }),
              HasSubstr("a.sh:2: error: '-pp 2': a serving engine in stages"));
}

TEST(VllmFlags, Limits) {
  const Launched launched = launched_by(
      "vllm serve m --max-num-seqs 256 --max-num-batched-tokens=4096 --kv-cache-dtype fp8_e4m3 "
      "--gpu-memory-utilization 0.85 --block-size 64 --no-enable-prefix-caching --enforce-eager "
      "--quantization fp8 --enable-dbo --max-model-len 4096 --enable-lora --trust-remote-code");
  EXPECT_EQ(values_in(launched, {"serving.engine.max_sequences", "serving.engine.max_tokens",
                                 "serving.kv", "serving.engine.memory", "serving.engine.kv.block",
                                 "serving.engine.kv.prefix_cache", "serving.graphs",
                                 "serving.precision", "serving.overlap"}),
            "256 4096 fp8 {share: 0.85, of: all} 64 false false fp8 two-batch");
  EXPECT_THAT(value_in(launched, "serving.requests"), HasSubstr("most: 3072}"));
  EXPECT_THAT(launched.not_simulated, testing::ElementsAre("--enable-lora"));
}

TEST(VllmFlags, NumbersMayBeAbbreviated) {
  const auto tokens = [](const std::string& number) {
    return value_in(launched_by("vllm serve m --max-num-batched-tokens " + number),
                    "serving.engine.max_tokens");
  };
  EXPECT_EQ(tokens("32k"), "32000");
  EXPECT_EQ(tokens("32K"), "32768");
  EXPECT_EQ(tokens("25.6k"), "25600");
  EXPECT_EQ(tokens("1M"), "1048576");
  for (const char* wrong : {"1.5K", "k", "1.2.3k", "2x", "-1k", "9999g"}) {
    EXPECT_THAT(error_of([&] { tokens(wrong); }), HasSubstr("is not a whole number")) << wrong;
  }
  EXPECT_THAT(error_of([] { launched_by("python -m sglang.launch_server --tp 1k"); }),
              HasSubstr("is not a whole number"));
  EXPECT_THAT(value_in(launched_by("vllm serve m --max-model-len 8k"), "serving.requests"),
              HasSubstr("most: 6000}"));
  EXPECT_THAT(value_in(launched_by("vllm serve m --max-model-len auto"), "serving.requests"),
              HasSubstr("most: 6144}"));
}

TEST(VllmFlags, MisspeltOnesAreNamed) {
  const Launched launched =
      launched_by("vllm serve m --tensor-paralel-size 2 --enable-expert-paralel --new-thing 3");
  EXPECT_THAT(launched.assumed,
              testing::ElementsAre(
                  HasSubstr("--tensor-paralel-size 2 is unknown here as a flag of vLLM; did you "
                            "mean --tensor-parallel-size?"),
                  HasSubstr("did you mean --enable-expert-parallel?")));
  EXPECT_THAT(launched.not_simulated, Contains("--tensor-paralel-size 2"));
}

TEST(VllmFlags, WholePromptsFitIntoAPass) {
  const std::string whole = "vllm serve m --no-enable-chunked-prefill";
  const Launched launched = launched_by(whole + " --max-num-batched-tokens 2048");
  EXPECT_THAT(value_in(launched, "serving.requests"),
              testing::AllOf(HasSubstr("most: 1536}"), HasSubstr("most: 512}")));
  EXPECT_THAT(launched.assumed, Contains(HasSubstr("requests of at most 2048 tokens")));
  EXPECT_TRUE(
      launched_by(whole + " --max-num-batched-tokens 2048 --max-model-len 1k").assumed.empty());
}

TEST(VllmFlags, KeysAreSharedWithinATensorGroup) {
  EXPECT_EQ(value_in(launched_by("vllm serve m -tp 8 -dcp 4"), "serving.dcp"), "4");
  EXPECT_THAT(error_of([] { launched_by("vllm serve m -dp 8 --decode-context-parallel-size 2"); }),
              HasSubstr("a.sh:1: error: dcp = 2 does not divide tp = 1"));
}

TEST(VllmFlags, BatchesOverlapFromSomeTokensOn) {
  EXPECT_EQ(values_in(launched_by("vllm serve m -dp 8 -ep --enable-dbo"),
                      {"serving.overlap", "serving.overlap_from"}),
            "two-batch -");
  EXPECT_EQ(value_in(launched_by("vllm serve m --enable-dbo --dbo-decode-token-threshold 64"),
                     "serving.overlap_from"),
            "{decode: 64, prompts: 512}");
}

TEST(VllmFlags, ValuesInJson) {
  const Launched launched = launched_by(
      "vllm serve m -dp 16 -ep --enable-eplb --eplb-config "
      "'{\"window_size\": 500, \"step_interval\": 2000, \"num_redundant_experts\": 32}' "
      "--speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 2}' "
      "--compilation-config '{\"cudagraph_capture_sizes\": [8, 1, 4]}' "
      "--kv-transfer-config '{\"kv_role\": \"kv_producer\"}'");
  EXPECT_EQ(launched.balancer, "kind: vllm, interval: 2000, window: 500");
  EXPECT_EQ(value_in(launched, "serving.engine.rebalance"), "{interval: 2000}");
  EXPECT_EQ(launched.redundant, 32);
  EXPECT_EQ(values_in(launched, {"serving.drafts", "serving.accepted", "serving.engine.graph_sizes",
                                 "serving.instances"}),
            "2 1.19 [1, 4, 8] {prefill: 1, decode: 1}");
  EXPECT_EQ(launched_by("vllm serve m -dp 16 -ep --enable-eplb --eplb-config.step_interval 100 "
                        "--num-redundant-experts 16")
                .balancer,
            "kind: vllm, interval: 100, window: 1000");
}

TEST(VllmLogs, AreReadAsFlags) {
  const std::string log =
      "(APIServer pid=1) INFO 11-20 08:12:33 [utils.py:233] non-default args: {'model_tag': "
      "'openai/gpt-oss-120b', 'model': 'openai/gpt-oss-120b', 'data_parallel_size': 8, "
      "'enable_expert_parallel': True, 'all2all_backend': 'deepep_low_latency', 'port': 1}\n";
  const Launched launched = launched_by(log);
  EXPECT_EQ(values_in(launched, {"parallel.tp", "parallel.ep", "policy"}),
            "1 8 deepep-low-latency");
  EXPECT_EQ(launched.model, "openai/gpt-oss-120b");
}

TEST(VllmLogs, NeedNoNameInLowerCase) {
  const Launched old = launch_of_text(
      "INFO [api_server.py:1034] vLLM API server version 0.8.4\n"
      "INFO [api_server.py:1035] args: Namespace(model='m', tensor_parallel_size=8)\n",
      "a.log");
  EXPECT_EQ(old.gpus, 8);
  const Launched config = launch_of_text(
      "INFO [core.py:75] Initializing a V1 LLM engine (v0.10.2) with config: model='m', "
      "speculative_config=None, max_seq_len=2048, tensor_parallel_size=4, data_parallel_size=2, "
      "chunked_prefill_enabled=True\n",
      "a.log");
  EXPECT_EQ(values_in(config, {"parallel.tp", "parallel.ep", "serving.engine.chunked_prefill"}),
            "4 1 true");
  EXPECT_EQ(config.limits.tokens, 2048);
  EXPECT_THAT(config.assumed, Contains(HasSubstr("does not say --enable-expert-parallel")));
}

TEST(VllmImages, AreTheEngine) {
  const Launched launched = launched_by(
      "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model a/b -tp 4 "
      "--served-model-name x y");
  EXPECT_EQ(launched.model, "a/b");
  EXPECT_EQ(launched.gpus, 4);
  EXPECT_TRUE(launched.not_simulated.empty());
}

const std::string sglang = "python3 -m sglang.launch_server --model-path m ";

TEST(SglangFlags, Degrees) {
  const auto degrees = [](const std::string& flags) {
    const Launched launched = launched_by(sglang + flags);
    return values_in(launched, {"parallel.tp", "parallel.ep", "parallel.etp", "policy"});
  };
  EXPECT_EQ(degrees("--tp 8"), "8 1 - megatron-allgather");
  EXPECT_EQ(degrees("--tp-size 16 --dp-size 16 --enable-dp-attention"),
            "1 1 16 megatron-allgather");
  EXPECT_EQ(degrees("--tp 8 --ep 4"), "8 4 2 megatron-allgather");
  EXPECT_EQ(degrees("--tp 16 --dp 8 --enable-dp-attention --moe-a2a-backend deepep"),
            "2 16 - deepep-low-latency");
  EXPECT_EQ(degrees("--tp 16 --dp 16 --enable-dp-attention --moe-a2a-backend deepep --deepep-mode "
                    "normal"),
            "1 16 - deepep-normal");
  EXPECT_EQ(value_in(launched_by(sglang + "--tp 8 --dp 2"), "serving.instances"), "2");
  EXPECT_THAT(error_of([] { launched_by(sglang + "--tp 8 --dp 3 --enable-dp-attention"); }),
              HasSubstr("3 ranks of attention do not divide 8 GPUs"));
  EXPECT_THAT(error_of([] { launched_by(sglang + "--tp 8 --ep 3"); }),
              HasSubstr("ep = 3 does not divide 8 GPUs"));
}

TEST(SglangFlags, Limits) {
  const Launched launched = launched_by(
      sglang +
      "--tp 16 --dp 16 --enable-dp-attention --moe-a2a-backend deepep --enable-eplb "
      "--ep-num-redundant-experts 32 --chunked-prefill-size 131072 --max-running-requests 2048 "
      "--mem-fraction-static 0.8 --disable-radix-cache --cuda-graph-max-bs 300 "
      "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
      "--speculative-num-draft-tokens 4 --disaggregation-mode decode --enable-torch-compile");
  EXPECT_EQ(
      values_in(launched, {"serving.engine.max_tokens_of_all_ranks", "serving.engine.max_sequences",
                           "serving.engine.memory", "serving.engine.kv.prefix_cache",
                           "serving.drafts", "serving.instances"}),
      "131072 128 {share: 0.8, of: all} false 3 {prefill: 1, decode: 1}");
  EXPECT_EQ(value_in(launched, "serving.engine.graph_sizes"),
            "[1, 2, 4, 8, 12, {from: 16, to: 256, step: 8}, {from: 272, to: 300, step: 16}]");
  EXPECT_EQ(launched.balancer, "kind: sglang, interval: 1000");
  EXPECT_EQ(value_in(launched, "serving.engine.rebalance"), "{interval: 1000}");
  EXPECT_EQ(value_in(launched_by(sglang + "--tp 8 --moe-a2a-backend deepep --enable-eplb "
                                          "--eplb-rebalance-num-iterations 70"),
                     "serving.engine.rebalance"),
            "{interval: 70}");
  EXPECT_THAT(launched.not_simulated, testing::ElementsAre("--enable-torch-compile"));
  EXPECT_EQ(
      value_in(launched_by(sglang + "--chunked-prefill-size -1"), "serving.engine.chunked_prefill"),
      "false");
  const Launched whole =
      launched_by(sglang +
                  "--tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size -1 "
                  "--max-prefill-tokens 2048");
  EXPECT_EQ(value_in(whole, "serving.engine.max_tokens_of_all_ranks"), "8192");
  EXPECT_THAT(value_in(whole, "serving.requests"), HasSubstr("most: 1536}"));
}

TEST(SglangFlags, RedundantExpertsWithoutABalancerStay) {
  const Launched launched = launched_by(sglang +
                                        "--tp 16 --dp 16 --enable-dp-attention --moe-a2a-backend "
                                        "deepep --ep-num-redundant-experts 32");
  EXPECT_EQ(launched.redundant, 32);
  EXPECT_EQ(launched.balancer, "kind: sglang, interval: 1048576");
  EXPECT_EQ(value_in(launched, "serving.engine.rebalance"), "{interval: 0}");
  EXPECT_TRUE(launched.not_simulated.empty());
}

TEST(SglangLogs, AreReadAsFlags) {
  const Launched launched = launched_by(
      "[2025-11-02 09:11:02] server_args=ServerArgs(model_path='/models/Kimi-K2-Instruct', "
      "tp_size=16, dp_size=1, ep_size=1, enable_dp_attention=False, moe_a2a_backend='none', "
      "chunked_prefill_size=8192, quantization=None, cuda_graph_bs=[1, 2, 4], "
      "disable_cuda_graph=False, host='0.0.0.0')");
  EXPECT_EQ(launched.model, "/models/Kimi-K2-Instruct");
  EXPECT_EQ(values_in(launched, {"parallel.tp", "serving.engine.graph_sizes", "serving.graphs"}),
            "16 [1, 2, 4] -");
  EXPECT_TRUE(launched.not_simulated.empty());
}

TEST(SglangScripts, OfTwoNodesAreOneLaunch) {
  const std::string node = sglang + "--tp 16 --nnodes 2 --dist-init-addr x:1 --node-rank ";
  EXPECT_EQ(launched_by(node + "0\n" + node + "1").gpus, 16);
  EXPECT_THAT(error_of([&] { launched_by(node + "0\n" + sglang + "--tp 8"); }),
              HasSubstr("a second launch: SGLang in line 1 and SGLang in line 2"));
}

const std::string options =
    "enable_attention_dp: true\nkv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.7\n"
    "cuda_graph_config: {enable_padding: true, max_batch_size: 256}\n"
    "moe_config: {backend: WIDEEP, load_balancer: {num_slots: 288, layer_updates_per_iter: 1}}\n"
    "speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 1}\n";
const std::string trtllm =
    "trtllm-serve m --tp_size 32 --ep_size 32 --max_batch_size 128 --max_num_tokens 2048 "
    "--max_seq_len 16384 --config ";

void expect_options(const Launched& launched) {
  EXPECT_EQ(
      values_in(launched, {"parallel.tp", "parallel.ep", "serving.kv", "serving.engine.memory",
                           "serving.drafts", "serving.engine.max_sequences"}),
      "1 32 fp8 {share: 0.7, of: free} 1 128");
  EXPECT_EQ(value_in(launched, "serving.engine.graph_sizes"),
            "[1, 2, 4, {from: 8, to: 128, step: 8}, 256]");
  EXPECT_EQ(launched.balancer, "kind: trt-llm, updates_per_iteration: 1");
  EXPECT_EQ(launched.slots, 288);
  EXPECT_THAT(launched.not_simulated, Contains("moe_config.backend: WIDEEP"));
  EXPECT_THAT(value_in(launched, "serving.requests"), HasSubstr("most: 2016}"))
      << "prompts are not cut, and a pass has room for 16 decodes of two tokens, too";
}

TEST(TrtllmOptions, OfAScriptOrAFile) {
  expect_options(launched_by("cat > ./o.yml <<EOF\n" + options + "EOF\n" + trtllm +
                             "o.yml --backend pytorch"));
  const TemporaryFolder folder;
  write_file(folder.path() + "/o.yml", options);
  expect_options(launch_of_text(trtllm + "o.yml\n", folder.path() + "/a.sh"));
  EXPECT_THAT(error_of([] { launched_by(trtllm + "absent.yml"); }),
              HasSubstr("there is no file 'absent.yml'"));
  write_file(folder.path() + "/o.yml", "\nmax_batch_size: many\n");
  EXPECT_THAT(error_of([&] { launch_of_text(trtllm + "o.yml\n", folder.path() + "/a.sh"); }),
              HasSubstr("/o.yml:2: error: 'many' is not a whole number"));
}

TEST(TrtllmOptions, ByThemselves) {
  const Launched launched =
      launch_of_text("tensor_parallel_size: 8\nmoe_expert_parallel_size: 4\n", "a.yaml");
  EXPECT_EQ(values_in(launched, {"parallel.tp", "parallel.ep", "parallel.etp"}), "8 4 2");
}

TEST(EngineErrors, OfTheModel) {
  EXPECT_THAT(error_of([] { launched_by("vllm serve $MODEL -tp 8"); }),
              HasSubstr("'$MODEL': its value is not known, as nothing in the file sets MODEL"));
  EXPECT_THAT(launched_by("vllm serve m -tp 8 \"$@\"").assumed,
              Contains(HasSubstr("$@ in line 1 is empty")));
}

}  // namespace
}  // namespace moesim
