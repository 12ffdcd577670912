// SPDX-License-Identifier: Apache-2.0
// What engines hold of sequences, and what they send of them.
#include <gtest/gtest.h>

#include "sim/run/engine_cases.h"
#include "sim/run/engine_pool.h"
#include "sim/run/simulate.h"

namespace moesim {
namespace {

EngineOutcome outcome_with(const std::string& model, const std::string& parallel,
                           const std::string& serving) {
  const Scenario scenario = parse_scenario(
      "topology: h200-rail\nmodel: " + model +
          "\npolicy: megatron-allgather\nparallel: " + parallel +
          "\nset: [topology.nodes=1]\nrouting: balanced\nserving:\n  engine: vllm\n" + serving,
      "engine.yaml", {});
  const Inputs inputs = open_inputs(scenario);
  return run_engines(scenario, inputs, {.workers = 0}).cases.at(0).outcome;
}

/// The most that so many requests at once take of a rank's room, in bytes of its GPU.
double held_by(const std::string& model, int requests) {
  const EngineOutcome run =
      outcome_with(model, "{tp: 8, ep: 1}",
                   "  requests: {count: " + std::to_string(requests) +
                       ", concurrency: " + std::to_string(requests) + ", input: 90, output: 2}\n");
  return run.metrics.load.kv_most * static_cast<double>(run.kv_tokens);
}

TEST(EngineMemory, APassTakesNoMoreThanItsShareUnlessNobodyChecks) {
  const auto obstacle = [](const std::string& more) {
    const Scenario scenario = parse_scenario(
        "topology: h200-rail\nmodel: qwen3-30b-a3b\npolicy: megatron-allgather\nparallel: {tp: 8, "
        "ep: "
        "1}\nset: [topology.nodes=1]\nrouting: balanced\nserving: {batch: {context: 64, sequences: "
        "1}, memory_fraction: 0.05}\n" +
            more,
        "pass.yaml", {});
    return simulate(scenario, open_inputs(scenario), {.workers = 0}).cases.at(0).cannot_run;
  };
  EXPECT_NE(obstacle("").find("an engine does not hold this pass: GPU 0 needs"), std::string::npos);
  EXPECT_EQ(obstacle("memory: ignore\n"), "");
}

TEST(EngineMemory, HasStatesAndWindowsOfSequences) {
  OpenedPool pool(
      parse_scenario(
          "topology: h200-rail\nmodel: qwen3-next-80b-a3b\npolicy: megatron-allgather\n"
          "parallel: {tp: 8, ep: 1}\nset: [topology.nodes=1]\nrouting: balanced\nserving:\n"
          "  engine: vllm\n  requests: {count: 1, concurrency: 1, input: 90, output: 2}\n",
          "engine.yaml", {}),
      RoutingSource::balanced);
  const SequenceCache cache = pool.prices().exact().sequence_cache();
  const double token = static_cast<double>(cache.per_token.value);
  const double sequence = static_cast<double>(cache.of(91).value) / token;
  EXPECT_GT(sequence, 500) << "the state is as large as many tokens";
  EXPECT_NEAR(held_by("qwen3-next-80b-a3b", 32) / 32, sequence, 17);
  EXPECT_NEAR(held_by("gpt-oss-20b", 32) / 32, 2 * 91, 17) << "every other layer has a window";
}

TEST(EngineMemory, HasRoomForTheLargestPassWhateverRequestsCome) {
  const auto room = [](int input) {
    return outcome_with("deepseek-v3", "{tp: 8, ep: 8}",
                        "  requests: {count: 8, concurrency: 8, input: " + std::to_string(input) +
                            ", output: 2}\n")
        .kv_tokens;
  };
  EXPECT_EQ(room(1), room(8000));
}

/// Bytes of a prompt of 100 tokens that GPUs fetch, by the sizes of the tensor groups.
double fetched(const std::string& model, int prompts, int decode) {
  const auto sizes = [](int tp) { return "{tp: " + std::to_string(tp) + ", ep: 8}"; };
  return static_cast<double>(
      outcome_with(model, sizes(prompts),
                   "  instances: {prefill: 1, decode: 1}\n  decode: {parallel: " + sizes(decode) +
                       "}\n  requests: {count: 1, concurrency: 1, input: 100, output: 2}\n")
          .moved.value);
}

TEST(EngineMemory, IsFetchedByEachGpuThatDecodes) {
  const double latent = 100 * 576.0 * 2 * 61;
  EXPECT_EQ(fetched("deepseek-v3", 8, 1), latent);
  EXPECT_EQ(fetched("deepseek-v3", 1, 8), 8 * latent);
  const double keys = 100 * 2.0 * 4 * 128 * 2 * 48;
  EXPECT_EQ(fetched("qwen3-30b-a3b", 8, 1), keys) << "four heads";
  EXPECT_EQ(fetched("qwen3-30b-a3b", 1, 8), 2 * keys);
  EXPECT_EQ(fetched("qwen3-30b-a3b", 1, 4), keys);
}

}  // namespace
}  // namespace moesim
