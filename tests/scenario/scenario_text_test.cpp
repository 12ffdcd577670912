// SPDX-License-Identifier: Apache-2.0
// A scenario that is written down and read again is the same; which steps of its trace are its own,
// and what files of them say they are of.
#include "sim/scenario/scenario_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "sim/base/files.h"
#include "sim/scenario/executable_steps.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

auto facts(const Scenario& s) {
  std::vector<std::string> set;
  for (const Override& o : s.set) set.push_back(o.path + "=" + o.value);
  return std::make_tuple(s.topologies, s.model, s.trace, s.policies, s.fidelities, s.p2p_order,
                         s.ep, s.tokens_per_rank, s.repeat, s.warmup, s.steps.first, s.steps.last,
                         s.recorded_layers, s.layers, s.backward, s.attention, s.memory,
                         s.accumulate, s.gradient_bytes, s.optimizer_bytes, s.transport, set);
}

Scenario read_again(const Scenario& scenario) {
  const auto path = std::filesystem::path(testing::TempDir()) / "scenario_text_test.yaml";
  write_file(path.string(), to_text(scenario));
  const Scenario again = read_scenario(path.string(), {});
  std::filesystem::remove(path);
  return again;
}

Scenario of_flags(std::vector<Override> more) {
  more.insert(more.end(), {{"topology", "h100-rail", "t"},
                           {"model", "'010'", "m"},
                           {"trace", "'/no/such: \"trace\"'", "r"},
                           {"policy", "[dedup, megatron]", "p"}});
  return read_scenario("", more);
}

TEST(ScenarioText, ReadsBackAsItWas) {
  const std::vector<std::vector<Override>> cases = {
      {},
      {{"fidelity", "flow", "f"}, {"p2p_order", "nccl", "o"}},
      {{"accumulate", "8", "a"}},
      {{"transport", "ideal", "t"}},
      {{"transport", "deepep-ll", "t"}},
      {{"accumulate", "never", "a"}},
      {{"ep", "4", "e"}, {"tokens_per_rank", "16", "k"}, {"repeat", "3", "r"}},
      {{"warmup", "2", "w"}, {"steps", "3:10", "s"}, {"layers", "[2, 1]", "l"}},
      {{"steps", "'7'", "s"}, {"layers", "recorded", "l"}},
      {{"pass", "forward", "p"}, {"attention", "false", "a"}, {"memory", "ignore", "m"}},
      {{"gradient_bytes", "4", "g"}, {"optimizer_bytes", "8", "o"}},
      {{"set", "topology.nodes=2", "s"}, {"set", "model.name=a=b: 'c'", "s"}},
  };
  for (const auto& flags : cases) {
    const Scenario scenario = of_flags(flags);
    EXPECT_EQ(facts(read_again(scenario)), facts(scenario)) << to_text(scenario);
  }
}

/// The line of a scenario of the two plain inputs, with these keys.
std::string line_of(const std::string& keys) {
  return scenario_line(parse_scenario(
      "topology: h100-rail\nmodel: tiny-moe\ntrace: /no/such\npolicy: megatron\n" + keys, "", {}));
}

const std::string inputs_line =
    R"({"topology":["h100-rail"],"model":"tiny-moe","trace":"/no/such","policy":["megatron"],)";

TEST(ScenarioText, OfStepsLeavesOutWhatIsUsual) {
  EXPECT_EQ(line_of(""), inputs_line + R"("fidelity":["port"],"repeat":1,"steps":"all",)"
                                       R"("transport":"own","pass":"forward+backward",)"
                                       R"("attention":true,"memory":"check",)"
                                       R"("gradient_bytes":2,"optimizer_bytes":12})");
  EXPECT_EQ(line_of("fidelity: [flow, simgrid]\np2p_order: nccl\nwarmup: 2\nsteps: 3:10\nep: 4\n"
                    "tokens_per_rank: 16\nlayers: [2, 1]\npass: forward\nattention: false\n"
                    "memory: model\naccumulate: 2\n"),
            inputs_line + R"("fidelity":["flow","simgrid"],"repeat":1,"steps":"3:10",)"
                          R"("transport":"own","warmup":2,"p2p_order":"nccl","ep":4,)"
                          R"("tokens_per_rank":16,"layers":[1,2],"pass":"forward",)"
                          R"("attention":false,"memory":"model","accumulate":2,)"
                          R"("gradient_bytes":2,"optimizer_bytes":12})");
}

TEST(ScenarioText, OfIterationsLeavesOutWhatIsUsual) {
  EXPECT_EQ(line_of("software: ideal\nbatch: {global: 8, sequence: 64}\n"),
            inputs_line +
                R"("fidelity":["port"],"repeat":1,"steps":"all","transport":"own",)"
                R"("memory":"check","gradient_bytes":2,"optimizer_bytes":12,"software":"ideal",)"
                R"("parallel":{"tp":1,"cp":1,"pp":1,"ep":1,"order":"tp-cp-ep-dp-pp","vpp":1},)"
                R"("batch":{"global":8,"micro":1,"sequence":64},"pipeline":"1f1b","recompute":[],)"
                R"("zero":1,"precision":"bf16","overlap":{"gradients":false,"parameters":false,)"
                R"("all_to_all":false,"delay_wgrad":false},"routing":["recorded"],)"
                R"("optimizer":"adam"})");
  using testing::HasSubstr;
  const std::string full = line_of(
      "software: ideal\nparallel: {dp_replicate: 2}\n"
      "batch: {global: 8, sequence: 64}\nrecompute: [mlp, layernorm]\nupdate_bytes: 1\n"
      "microbatches: {distinct: 1}\n"
      "host: {per_kernel: 10 us, per_module: 20 us, per_collective: 40 us, per_graph: 50 us,"
      " grouped: true, graphs: [attn], waits_for: [stage-transfer]}\n");
  EXPECT_THAT(full, HasSubstr(R"("dp_replicate":2)"));
  EXPECT_THAT(full, HasSubstr(R"("recompute":["layernorm","mlp"])"));
  EXPECT_THAT(full, HasSubstr(R"("microbatches":{"distinct":1},"optimizer":"adam",)"
                              R"("update_bytes":1,"host":{"per_kernel":"10 us",)"
                              R"("per_module":"20 us","graphs":["attn"],)"
                              R"("per_collective":"40 us","grouped":true,"per_graph":"50 us",)"
                              R"("waits_for":["stage-transfer"]}})"));
}

TEST(ScenarioText, SaysOneOfWhatIsUsuallyNone) {
  using testing::HasSubstr;
  const std::string line = line_of(
      "batch: {global: 8, sequence: 64}\nwarmup: 1\nupdate_bytes: 1\nmicrobatches: {distinct: "
      "1}\n");
  for (const char* const key : {R"("warmup":1)", R"("update_bytes":1)", R"("distinct":1)"}) {
    EXPECT_THAT(line, HasSubstr(key));
  }
  EXPECT_THAT(line_of("serving: {batch: {context: 9, sequences: 4}, attention_ranks: 1, dcp: 2}\n"),
              HasSubstr(R"("dcp":2,"attention_ranks":1)"));
  EXPECT_THAT(to_text(of_flags({})), testing::StartsWith("{\n \"topology\""));
}

TEST(ScenarioText, OfServingSaysAllOfAPass) {
  using testing::HasSubstr;
  const auto serving = [](const std::string& more) {
    return line_of("serving: {batch: {context: 9, sequences: 4}" + more + "}\n");
  };
  EXPECT_THAT(serving(""),
              HasSubstr(R"("vpp":1},"serving":{"batch":[[{"context":9,"tokens":1,"sequences":4}]],)"
                        R"("drafts":0,"accepted":0.0,"precision":"bf16","kv":"bf16",)"
                        R"("graphs":true,"overlap":"none","memory_fraction":0.9},)"
                        R"("routing":["recorded"]})"));
  EXPECT_THAT(serving(", precision: fp8"), HasSubstr(R"("precision":"fp8")"));
  EXPECT_THAT(
      serving(", precision: nvfp4, graphs: [8, 16], overlap: two-batch"),
      HasSubstr(R"("precision":"nvfp4","kv":"bf16","graphs":[8,16],"overlap":"two-batch")"));
}

/// On a node of 8 GPUs.
Scenario on_a_node(std::vector<Override> more) {
  more.insert(more.end(), {{"topology", "h100-rail", "t"},
                           {"model", "tiny-moe", "m"},
                           {"trace", "tiny-moe-train", "r"},
                           {"policy", "alltoall", "p"},
                           {"set", "topology.nodes=1", "n"}});
  return read_scenario("", more);
}

struct FittedSteps {
  std::size_t warmup, counted;
  int first;
  bool operator==(const FittedSteps&) const = default;
};

FittedSteps fitted(std::vector<Override> more) {
  more.insert(more.end(), {{"layers", "recorded", "l"}, {"tokens_per_rank", "16", "k"}});
  const Inputs inputs = open_inputs(on_a_node(std::move(more)));
  const ClusterInput& cluster = inputs.clusters[0];
  return {cluster.warmup.size(), cluster.batches.batches.size(), cluster.first_step};
}

std::string fitting_mistake(const std::vector<Override>& more) {
  return error_of([&] { fitted(more); });
}

TEST(FittedTrace, HasTheStepsAskedForAfterTheirWarmUp) {
  const std::size_t all = fitted({}).counted;
  ASSERT_GT(all, 6U);
  const auto text = [](std::size_t number) { return std::to_string(number); };
  EXPECT_EQ(fitted({{"steps", "3:5", "s"}}), (FittedSteps{0, 2, 3}));
  EXPECT_EQ(fitted({{"steps", "3:5", "s"}, {"warmup", "2", "w"}}), (FittedSteps{2, 2, 3}));
  EXPECT_EQ(fitted({{"steps", "3:5", "s"}, {"warmup", "6", "w"}}), (FittedSteps{3, 2, 3}));
  EXPECT_EQ(fitted({{"warmup", "2", "w"}}), (FittedSteps{2, all - 2, 2}));
  EXPECT_EQ(fitted({{"warmup", text(all - 1), "w"}}).counted, 1U);
  EXPECT_EQ(fitted({{"steps", "'0:" + text(all) + "'", "s"}}).counted, all);
  EXPECT_EQ(fitted({{"repeat", "2", "r"}}).counted, 2 * all);
  using testing::HasSubstr;
  EXPECT_THAT(fitting_mistake({{"warmup", text(all), "w"}}),
              HasSubstr("'warmup' is " + text(all) + ", and the trace makes " + text(all)));
  for (const std::string& steps : {text(all), "0:" + text(all + 1)}) {
    EXPECT_THAT(fitting_mistake({{"steps", "'" + steps + "'", "s"}}),
                HasSubstr("'steps' asks for step " + text(all) + ", but the trace makes " +
                          text(all) + " on the 8 GPUs of 'h100-rail' (0 to " + text(all - 1)));
  }
  EXPECT_THAT(fitting_mistake({{"ep", "3", "e"}}), HasSubstr("'ep' is 3: it must divide 8 GPUs"));
}

TEST(StepsOrigin, SaysWhatTheStepsAreOf) {
  const auto origin = [](const std::vector<Override>& more) {
    const Scenario scenario = on_a_node(more);
    const Inputs inputs = open_inputs(scenario);
    StepsOrigin of = origin_of(scenario, inputs, inputs.clusters[0], "1.2");
    EXPECT_EQ(of.scenario, to_text(scenario));
    EXPECT_EQ(of.model.hash, inputs.model_file.hash);
    EXPECT_EQ(of.topology.hash, inputs.clusters[0].file.hash);
    EXPECT_EQ(of.trace.hash, inputs.trace_file().hash);
    return of;
  };
  const StepsOrigin steps = origin({{"layers", "[1, 3]", "l"},
                                    {"tokens_per_rank", "16", "k"},
                                    {"steps", "3:5", "s"},
                                    {"pass", "forward", "p"}});
  EXPECT_EQ(steps.moesim + steps.model_name, "1.2tiny-moe");
  EXPECT_EQ(std::tuple(steps.hidden, steps.expert_ffn, steps.layers, steps.steps),
            std::tuple(128, 128, 2, 2));
  EXPECT_EQ(steps.tokens_per_rank, 16);
  EXPECT_EQ(std::tuple(steps.gated, steps.backward, steps.iteration),
            std::tuple(true, false, false));
  const StepsOrigin iterations = origin({{"parallel.pp", "2", "p"},
                                         {"batch.global", "16", "b"},
                                         {"batch.sequence", "128", "s"},
                                         {"steps", "0:2", "t"}});
  EXPECT_TRUE(iterations.iteration);
  EXPECT_EQ(std::tuple(iterations.layers, iterations.steps), std::tuple(4, 2));
  EXPECT_EQ(iterations.tokens_per_rank, 16 * 128 / 4);
}

}  // namespace
}  // namespace moesim
