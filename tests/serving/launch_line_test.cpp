// SPDX-License-Identifier: Apache-2.0
// Launch lines carry only flags that the engine of the stated version documents.
#include "sim/serving/engine/launch_line.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

namespace moesim {
namespace {

using Flags = std::map<std::string, std::set<std::string>>;  // -> values that it allows; any

/// Flags of the parsers, read there: vllm/engine/arg_utils.py and config/parallel.py
/// (All2AllBackend) of vllm-project/vllm; python/sglang/srt/server_args.py of sgl-project/sglang;
/// tensorrt_llm/commands/serve.py of NVIDIA/TensorRT-LLM 00209af1.
const std::map<std::string, Flags> documented = {
    {"vllm",
     {{"--tensor-parallel-size", {}},
      {"--data-parallel-size", {}},
      {"--max-num-batched-tokens", {}},
      {"--gpu-memory-utilization", {}},
      {"--max-num-seqs", {}},
      {"--long-prefill-token-threshold", {}},
      {"--no-enable-chunked-prefill", {}},
      {"--no-async-scheduling", {}},
      {"--enforce-eager", {}},
      {"--kv-cache-dtype", {"auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"}},
      {"--block-size", {}},
      {"--no-enable-prefix-caching", {}},
      {"--dbo-decode-token-threshold", {}},
      {"--dbo-prefill-token-threshold", {}},
      {"--enable-expert-parallel", {}},
      {"--kv-transfer-config", {}},
      {"--enable-dbo", {}},
      {"--decode-context-parallel-size", {}},
      {"--speculative-config", {}},
      {"--all2all-backend",
       {"allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency"}}}},
    {"sglang",
     {{"--model-path", {}},
      {"--tp-size", {}},
      {"--dp-size", {}},
      {"--ep-size", {}},
      {"--enable-dp-attention", {}},
      {"--chunked-prefill-size", {}},
      {"--mem-fraction-static", {}},
      {"--max-running-requests", {}},
      {"--enable-mixed-chunk", {}},
      {"--disable-overlap-schedule", {}},
      {"--disable-cuda-graph", {}},
      {"--kv-cache-dtype", {"auto", "fp8_e5m2", "fp8_e4m3", "bfloat16"}},
      {"--page-size", {}},
      {"--max-total-tokens", {}},
      {"--disable-radix-cache", {}},
      {"--disaggregation-mode", {"null", "prefill", "decode"}},
      {"--moe-a2a-backend", {"none", "deepep", "mooncake", "nixl", "mori", "flashinfer"}},
      {"--deepep-mode", {"normal", "low_latency", "auto"}},
      {"--enable-two-batch-overlap", {}},
      {"--enable-single-batch-overlap", {}},
      {"--speculative-algorithm", {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"}},
      {"--speculative-num-steps", {}},
      {"--speculative-eagle-topk", {}},
      {"--speculative-num-draft-tokens", {}}}},
    {"trtllm",
     {{"--tp_size", {}},
      {"--ep_size", {}},
      {"--max_num_tokens", {}},
      {"--max_batch_size", {}},
      {"--kv_cache_free_gpu_memory_fraction", {}},
      {"--extra_llm_api_options", {}}}}};

/// Its flags, each with the word behind it; "" if another flag is there.
std::vector<std::pair<std::string, std::string>> flags_of(const std::string& line) {
  static const std::regex flag(R"((--[a-z0-9_-]+)(?:[ =]([^- ][^ ]*))?)");
  std::vector<std::pair<std::string, std::string>> flags;
  for (std::sregex_iterator at(line.begin(), line.end(), flag), end; at != end; ++at) {
    flags.emplace_back((*at)[1], (*at)[2]);
  }
  return flags;
}

std::vector<std::string> all_lines(const EngineModel& engine) {
  std::vector<std::string> dispatches = {"alltoall"}, lines;
  for (const auto& [kind, text] : engine.launch.dispatch) dispatches.push_back(kind);
  using Pool = LaunchFacts::Pool;
  for (const std::string& dispatch : dispatches) {
    for (const Pool pool : {Pool::all, Pool::prompts, Pool::decode}) {
      for (const int dp : {1, 8}) {
        lines.push_back(launch_line(engine, {"some/model", 8, 8 / dp, dp, 8, dispatch, pool}));
      }
    }
  }
  for (const char* overlap : {"none", "two-batch", "three-batch", "single-batch"}) {
    lines.push_back(
        launch_line(engine, {"some/model", 8, 4, 2, 8, "alltoall", Pool::all, overlap, 4, 3}));
  }
  LaunchFacts changed{"some/model", 8, 4, 2, 8, "alltoall", Pool::all};
  const std::vector<LaunchSetting> settings = {{"max_sequences", "8"},
                                               {"chunk", "512"},
                                               {"chunked_prefill", "false"},
                                               {"mixed", "true"},
                                               {"plans_ahead", "false"},
                                               {"graphs", "false"},
                                               {"kv", "fp8"},
                                               {"kv.block", "32"},
                                               {"kv.tokens", "4096"},
                                               {"router", "random"},
                                               {"kv.prefix_cache", "false"},
                                               {"overlap_from.decode", "16"},
                                               {"overlap_from.prompts", "64"}};
  for (const LaunchSetting& setting : settings) {
    changed.settings = {setting};
    lines.push_back(launch_line(engine, changed));
  }
  changed.settings = settings;
  lines.push_back(launch_line(engine, changed));
  return lines;
}

TEST(LaunchLines, SayWhatAPresetDoesNot) {
  EngineModel preset, engine;
  preset.launch.line = "run";
  preset.launch.settings = {{"max_sequences", "--most {value} --of-all {of_ranks}"},
                            {"kv.prefix_cache=false", "--no-prefixes"}};
  preset.launch.file = {"--file",
                        {},
                        {},
                        {},
                        {},
                        {{"kv.block", "kv: {share: {memory}, block: {value}}"},
                         {"kv", "kv: {share: {memory}, type: {value}}"}}};
  engine = preset;
  EXPECT_TRUE(settings_of(engine, preset).empty());
  engine.options.max_sequences = 8;
  engine.options.kv.block = 32;
  engine.options.kv.prefix_cache = false;
  engine.options.chunked_prefill = false;
  engine.options.intake = Seconds(1);
  LaunchFacts facts{"m", 4, 1, 4, 1, "", LaunchFacts::Pool::all};
  facts.settings = settings_of(engine, preset);
  facts.settings.push_back({"kv", "fp8"});
  EXPECT_EQ(launch_line(engine, facts),
            "run --most 8 --of-all 32 --no-prefixes --file <(printf '%s\\n' 'kv: {share: 0.90, "
            "block: 32, type: fp8}')");
  EXPECT_EQ(left_out_of_line(engine, facts), "chunked_prefill: false");
}

TEST(LaunchLines, TokensOfAllRanksAreFewerIfARankMayHaveFewer) {
  EngineModel engine;
  engine.launch.line = "{tokens}";
  engine.tokens_of_all_ranks = 8192;
  const LaunchFacts facts{"m", 4, 1, 4, 1, "", LaunchFacts::Pool::all};
  EXPECT_EQ(launch_line(engine, facts), "8192");
  engine.options.max_tokens = 512;
  EXPECT_EQ(launch_line(engine, facts), "2048");
}

TEST(LaunchLines, PartsAreThereIfThereIsMoreThanOne) {
  EngineModel engine;
  engine.launch.line = "run {model} {model}";
  engine.launch.spread = "--dp {dp}";
  engine.launch.experts = "--ep {ep}";
  engine.launch.dispatch = {{"kind", "--kind"}};
  const auto line = [&](int dp, int ep) {
    return launch_line(engine, {"some/model", 4, 1, dp, ep, "kind", LaunchFacts::Pool::all});
  };
  EXPECT_EQ(line(1, 1), "run some/model some/model");
  EXPECT_EQ(line(2, 1), "run some/model some/model --dp 2");
  EXPECT_EQ(line(1, 2), "run some/model some/model --ep 2");
  EXPECT_EQ(line(2, 2), "run some/model some/model --dp 2 --ep 2 --kind");
}

TEST(LaunchLines, PoolsHaveTheirFlagsAndLinesOfAFile) {
  EngineModel engine;
  engine.launch.line = "run";
  engine.launch.prompts = "--prompts";
  engine.launch.decode = "--decode";
  engine.launch.file = {"--file", {"s"}, {"p", "q"}, {"d"}, {}};
  const auto line = [&](int dp, LaunchFacts::Pool pool) {
    return launch_line(engine, {"m", 4, 1, dp, 1, "", pool});
  };
  using Pool = LaunchFacts::Pool;
  EXPECT_EQ(line(1, Pool::all), "run");
  EXPECT_EQ(line(2, Pool::all), "run --file <(printf '%s\\n' 's')");
  EXPECT_EQ(line(1, Pool::prompts), "run --prompts --file <(printf '%s\\n' 'p' 'q')");
  EXPECT_EQ(line(2, Pool::decode), "run --decode --file <(printf '%s\\n' 's' 'd')");
  engine.launch.line = "";
  EXPECT_EQ(line(2, Pool::decode), "");
}

TEST(LaunchLines, AskForOverlapsSharedKeysAndDrafts) {
  EngineModel engine;
  engine.launch.line = "run";
  engine.launch.overlaps = {{"two-batch", "--two"}};
  engine.launch.dcp = "--dcp {dcp}";
  engine.launch.drafts = "--steps {drafts} --verify {verified}";
  LaunchFacts facts{"m", 8, 8, 1, 8, "", LaunchFacts::Pool::all, "two-batch", 2, 3};
  EXPECT_EQ(launch_line(engine, facts), "run --two --dcp 2 --steps 3 --verify 4");
  EXPECT_EQ(left_out_of_line(engine, facts), "");
  engine.launch.drafts = "";
  engine.launch.file = {"--file", {}, {}, {}, {"drafts: {drafts}"}};
  EXPECT_EQ(launch_line(engine, facts), "run --two --dcp 2 --file <(printf '%s\\n' 'drafts: 3')");
  EXPECT_EQ(left_out_of_line(engine, facts), "");
  engine.launch.file = {};
  engine.launch.dcp = "";
  facts.overlap = "single-batch";
  EXPECT_EQ(launch_line(engine, facts), "run");
  EXPECT_EQ(left_out_of_line(engine, facts), "overlap: single-batch, dcp: 2, drafts: 3");
  facts.overlap = "none";
  facts.dcp = 1;
  facts.drafts = 0;
  EXPECT_EQ(left_out_of_line(engine, facts), "");
}

TEST(LaunchLines, SayWhichDispatchAndTensorGroupsHaveNoFlag) {
  EngineModel engine;
  engine.launch.line = "run --gpus {gpus}";
  engine.launch.dispatch = {{"kind", "--kind"}};
  LaunchFacts facts{"m", 8, 2, 4, 8, "other", LaunchFacts::Pool::all};
  EXPECT_EQ(left_out_of_line(engine, facts),
            "tensor groups of 2 within 4 ranks of attention, dispatch: other");
  facts.dispatch = "kind";
  engine.launch.spread = "--dp {dp}";
  EXPECT_EQ(left_out_of_line(engine, facts), "");
  engine.launch.spread = "";
  facts.tp = 1;
  EXPECT_EQ(left_out_of_line(engine, facts), "");
}

TEST(LaunchLines, CountTokensAsThePresetDoes) {
  EngineModel engine;
  engine.launch.line = "run {tokens} {memory}";
  engine.options.max_tokens = 100;
  engine.memory.share = 0.875;
  const auto line = [&] {
    return launch_line(engine, {"m", 4, 1, 1, 1, "", LaunchFacts::Pool::all});
  };
  EXPECT_EQ(line(), "run 100 0.88");
  engine.tokens_of_all_ranks = 800;
  EXPECT_EQ(line(), "run 100 0.88");
  engine.options.max_tokens = no_limit;
  EXPECT_EQ(line(), "run 800 0.88");
}

TEST(LaunchLines, HaveOnlyFlagsAndValuesThatTheEngineDocuments) {
  for (const auto& [name, known] : documented) {
    std::set<std::string> used;
    for (const std::string& line : all_lines(engine_named(name))) {
      for (const auto& [flag, value] : flags_of(line)) {
        ASSERT_TRUE(known.contains(flag)) << flag << " of " << name << ": " << line;
        const auto& values = known.at(flag);
        EXPECT_TRUE(values.empty() || values.contains(value)) << flag << " " << value;
        used.insert(flag);
      }
      EXPECT_FALSE(std::regex_search(line, std::regex(R"(\{[a-z]+\})")))
          << "a name is left: " << line;
    }
    EXPECT_EQ(used.size(), known.size()) << name << ": a flag of the table is not used";
  }
}

TEST(LaunchLines, OfTensorRtLlmWriteAFileForWhatHasNoFlag) {
  const EngineModel engine = engine_named("trtllm");
  const std::string spread =
      launch_line(engine, {"m", 8, 1, 8, 8, "alltoall", LaunchFacts::Pool::all});
  EXPECT_THAT(spread, ::testing::EndsWith(
                          "--extra_llm_api_options <(printf '%s\\n' 'enable_attention_dp: true')"));
  const std::string prompts =
      launch_line(engine, {"m", 8, 8, 1, 8, "alltoall", LaunchFacts::Pool::prompts});
  EXPECT_THAT(prompts, ::testing::HasSubstr("'disable_overlap_scheduler: true' "
                                            "'cache_transceiver_config: {backend: DEFAULT}')"));
  const std::string together =
      launch_line(engine, {"m", 8, 8, 1, 8, "alltoall", LaunchFacts::Pool::all});
  EXPECT_EQ(together.find("--extra_llm_api_options"), std::string::npos);
}

}  // namespace
}  // namespace moesim
