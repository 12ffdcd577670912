// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/engine_reader.h"

#include <gmock/gmock.h>

#include <numeric>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

EngineModel model_of(const std::string& keys) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/engine.yaml";
  write_file(path, "name: own\ndescription: d\nsource: s\nversion: 1\n" + keys);
  return read_engine(path);
}

std::string mistakes_in(const std::string& keys) {
  return error_of([&] { model_of(keys); });
}

TEST(EngineFiles, PresetsAreReadAndDiffer) {
  const EngineModel vllm = engine_named("vllm"), sglang = engine_named("sglang"),
                    trtllm = engine_named("trtllm");
  EXPECT_TRUE(vllm.options.mixed);
  EXPECT_FALSE(sglang.options.mixed);
  EXPECT_FALSE(trtllm.options.chunked_prefill);
  EXPECT_EQ(vllm.options.kv.reserve.initial, 0) << "it preempts";
  EXPECT_EQ(trtllm.options.kv.reserve.least, 1) << "it never does";
  EXPECT_EQ(vllm.options.graph_sizes.size(), 3U + 31 + 17);
  EXPECT_EQ(vllm.options.graph_sizes.back(), 512);
  for (const std::string& name : data_names("models/engine")) {
    const EngineModel model = engine_named(name);
    EXPECT_EQ(model.name, name);
    EXPECT_FALSE(model.options.version.empty());
  }
}

TEST(EngineFiles, HostsOfPassesWithoutGraphs) {
  EXPECT_FALSE(engine_named("vllm").host) << "as its software says";
  EXPECT_EQ(engine_named("sglang").host->per_kernel, Seconds(36e-6));
  HostModel software;
  software.grouped = true;
  software.graphs = {GraphModule::mlp};
  const HostModel host = *engine_named("sglang", software).host;
  EXPECT_EQ(host.per_kernel, Seconds(36e-6));
  EXPECT_TRUE(host.grouped && host.graphs == software.graphs) << "what it does not say";
  EXPECT_EQ(model_of("host: {per_kernel: 2 us, per_module: 3 us}\n").host->per_module,
            Seconds(3e-6));
  EXPECT_FALSE(model_of("host: none\n").host->takes_time());
  EXPECT_THAT(mistakes_in("host: {per_kernel: 2 m}\n"),
              HasSubstr(":5:20: error: 'host.per_kernel'"));
}

TEST(EngineFiles, WhatTheyStateIsTakenOver) {
  EXPECT_EQ(model_of("balance_wait: 7\n").options.balance_wait, 7);
  EXPECT_EQ(model_of("balance_wait: 0\n").options.balance_wait, 0);
  EXPECT_EQ(model_of("look_every: 3\n").options.look_every, 3);
  EXPECT_EQ(model_of("kv: {reserve: {initial: 0.5, passes: 0}}\n").options.kv.reserve.passes, 0);
  EXPECT_THAT(mistakes_in("drafts: {tokens: 2, gained: [0.5, 0.5]}\n"),
              HasSubstr("hint: 3 shares that sum to 1"));
  EngineModel few;
  few.tokens_of_all_ranks = 4;
  EXPECT_EQ(few.for_ranks(2).max_tokens, 2);
  EXPECT_EQ(few.for_ranks(8).max_tokens, 1) << "no rank has none";
}

TEST(EngineFiles, RanksShareTokensOfAPass) {
  const EngineModel sglang = engine_named("sglang");
  EXPECT_EQ(sglang.for_ranks(1).max_tokens, 8192);
  EXPECT_EQ(sglang.for_ranks(32).max_tokens, 256);
  EXPECT_DOUBLE_EQ(sglang.for_ranks(1).kv.reserve.initial, 0.7);
  EXPECT_DOUBLE_EQ(sglang.for_ranks(2).kv.reserve.initial, 0.21);
  EXPECT_DOUBLE_EQ(sglang.for_ranks(32).kv.reserve.initial, 0.21);
  EXPECT_EQ(engine_named("vllm").for_ranks(32).max_tokens, 8192);
}

TEST(EngineFiles, EveryKey) {
  const EngineModel model = model_of(
      "max_sequences: 5\nmax_tokens: 100\nchunk: 7\nmixed: false\ncadence: 3\n"
      "plans_ahead: true\none_thread: true\nholds_places: true\nintake: 2 ms\nidle_passes: "
      "false\ngraph_sizes: [1, {from: 4, to: 8, "
      "step: 2}]\ngraphs_alike: false\n"
      "router: {kind: prefix, front_ends: 4, match: 0.3, imbalance: 8, imbalance_ratio: 2}\n"
      "prompts_router: random\n"
      "kv: {block: 64, tokens: 5000, prefix_cache: false, reserve: {initial: 0.5, least: 0.25, "
      "passes: 10}}\n"
      "drafts: {tokens: 1, gained: [0.25, 0.75]}\nmemory: {share: 0.8, of: free}\n"
      "rebalance: {interval: 100, stall: 2 s, movement: 1 ms, slowdown: 0.1}\n");
  const EngineOptions options = model.for_ranks(2);
  EXPECT_EQ(options.max_sequences, 5);
  EXPECT_EQ(options.chunk, 7);
  EXPECT_EQ(options.cadence, 3);
  EXPECT_TRUE(options.plans_ahead && options.one_thread && options.holds_places);
  EXPECT_EQ(options.intake, Seconds(2e-3));
  EXPECT_THAT(options.graph_sizes, ::testing::ElementsAre(1, 4, 6, 8));
  EXPECT_EQ(options.router.kind, RouterOptions::Kind::prefix);
  EXPECT_EQ(options.router.imbalance, 8);
  EXPECT_EQ(options.router.front_ends, 4);
  ASSERT_TRUE(options.prompts_router);
  EXPECT_EQ(options.prompts_router->kind, RouterOptions::Kind::random);
  EXPECT_EQ(options.kv.capacity, 5000);
  EXPECT_EQ(options.kv.reserve.least, 0.25);
  EXPECT_EQ(options.gained[1], 0.75);
  EXPECT_EQ(options.rebalance.stall, Seconds(2));
  EXPECT_EQ(options.rebalance.interval, 100);
  EXPECT_EQ(options.rebalance.movement, Seconds(1e-3));
  EXPECT_EQ(options.rebalance.slowdown, 0.1);
  EXPECT_TRUE(model.memory.of_free);
  EXPECT_EQ(model.memory.share, 0.8);
}

TEST(EngineFiles, SharesAreOneAtMost) {
  EXPECT_EQ(model_of("kv: {reserve: {initial: 1}}\n").options.kv.reserve.least, 1);
  EXPECT_EQ(model_of("kv: {reserve: {initial: 1}}\n").options.kv.reserve.passes, 0);
  EXPECT_THAT(mistakes_in("kv: {reserve: {initial: 1.1}}\n"),
              HasSubstr("'kv.reserve.initial' is 1.1, must be between 0 and 1"));
  EXPECT_THAT(mistakes_in("memory: {share: 1.1}\n"),
              HasSubstr("'memory.share' is 1.1, must be between 0.05 and 1"));
}

TEST(EngineFiles, WhatMappingsLeaveOutIsNone) {
  const EngineModel model =
      model_of("memory: {share: 0.8}\nrebalance: {interval: 100}\ngraph_prompt_tokens: 64\n");
  EXPECT_FALSE(model.memory.of_free);
  EXPECT_EQ(model.options.rebalance.stall, std::nullopt);
  EXPECT_EQ(model.options.rebalance.movement, Seconds(0));
  EXPECT_EQ(model.options.rebalance.slowdown, 0);
  EXPECT_EQ(model.options.graph_prompt_tokens, 64);
}

TEST(EngineFiles, MistakesAreSaidTogether) {
  const std::string text = mistakes_in(
      "max_sequence: 5\ngraph_sizes: [4, 2]\ndrafts: {tokens: 2, gained: [0.5, 0.5]}\n"
      "kv: {reserve: {initial: 0.1, least: 0.2}}\nrouter: nearest\n");
  EXPECT_THAT(text, HasSubstr("max_sequence"));
  EXPECT_THAT(text, HasSubstr("does not ascend"));
  EXPECT_THAT(text, HasSubstr("2 shares that sum to 1"));
  EXPECT_THAT(text, HasSubstr("rises from 0.1 to 0.2"));
  EXPECT_THAT(text, HasSubstr("nearest"));
}

TEST(EngineFiles, RangesOfSizesRiseAndAreNotEndless) {
  EXPECT_THAT(mistakes_in("graph_sizes: [{from: 8, to: 1, step: 1}]\n"),
              HasSubstr("'graph_sizes.0' falls from 8 to 1"));
  EXPECT_THAT(mistakes_in("graph_sizes: [{from: 1, to: 4097, step: 1}]\n"),
              HasSubstr("'graph_sizes' has more than 4096 sizes"));
  EXPECT_EQ(model_of("graph_sizes: [{from: 1, to: 4096, step: 1}]\n").options.graph_sizes.size(),
            4096U);
}

}  // namespace
}  // namespace moesim
