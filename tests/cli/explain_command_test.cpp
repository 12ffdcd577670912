// SPDX-License-Identifier: Apache-2.0
// moesim explain on the hand-sized trace: the page, the JSON, wrong layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

Outcome explain(std::vector<std::string> more, const std::string& policy = "dedup") {
  more.insert(more.end(), {"--transport", "ideal"});
  return run_moesim(on_hand_trace("explain", "two-by-two", {policy}, more));
}

TEST(ExplainCommand, PrintsThePage) {
  const Outcome outcome = explain({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, testing::StartsWith("# moesim "));
  expect_golden(MOESIM_ROOT "/tests/cli/golden/explain.txt", without_version(outcome.out));
}

// Step 0, layer 0, ranks of two tokens, one expert per GPU. To other hosts: two rows from rank 0,
// one from rank 1, four from rank 2 and two from rank 3; rank 2's two tokens need both GPUs of
// node 0, for which one row each is enough. Five rows stay, two cross a node. Into node 0 go at
// least four rows of 2 kB over 20 GB/s: 10 us + 4 us + 0.4 us.
TEST(ExplainCommand, JsonHoldsTheFiguresCountedByHand) {
  const Scratch scratch;
  const Outcome outcome = explain({"--pass", "forward", "--json", scratch.file("e.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json page = Json::parse(content(scratch.file("e.json")));
  EXPECT_EQ(page["format"], "moesim-explanation");
  EXPECT_EQ(page["layer"], 0);
  const Json& dispatch = page["steps"][2];
  EXPECT_EQ(dispatch["kind"], "exchange");
  EXPECT_EQ(dispatch["rows"], Json({{"same_gpu", 5}, {"same_host", 2}, {"other_host", 9}}));
  EXPECT_EQ(dispatch["bytes"]["other_host"], 18000);
  const Json& bound = page["lower_bounds"][0];
  EXPECT_EQ(bound["least_other_host_bytes"], 14000);
  EXPECT_EQ(bound["other_host_bytes"], 18000);
  EXPECT_EQ(bound["port"], "into node0");
  EXPECT_NEAR(bound["bound_s"].get<double>(), 14.4e-6, 1e-12);
}

TEST(ExplainCommand, PartsOfAnIterationAddUpToItsTime) {
  const Outcome said = run_moesim({"explain", "iteration", "--policy", "alltoall", "--routing",
                                   "balanced", "--json", "-", "-q"},
                                  {.data = MOESIM_ROOT});
  const Json page = Json::parse(said.out);
  const auto sum_of = [](const Json& parts) {
    double sum = 0;
    for (const auto& part : parts.items()) sum += part.value().get<double>();
    return sum;
  };
  const double time = page["iteration_s"];
  EXPECT_NEAR(sum_of(page["parts_s"]), time, 1e-9 * time);
  ASSERT_EQ(page["ranks"].size(), 16U);
  for (const Json& rank : page["ranks"]) EXPECT_NEAR(sum_of(rank["parts_s"]), time, 1e-9 * time);
}

TEST(ExplainCommand, LayersTogetherDropWhatTheStepDrops) {
  const auto document = [](const char* command, const std::vector<std::string>& more) {
    std::vector<std::string> line = {command,    "quickstart", "--topology", "h100-rail",
                                     "--policy", "deepspeed",  "--steps",    "0:1",
                                     "--json",   "-",          "-q"};
    line.insert(line.end(), more.begin(), more.end());
    return Json::parse(run_moesim(line, {.data = MOESIM_ROOT}).out);
  };
  std::int64_t dropped = 0;
  for (const char* layer : {"0", "1", "2", "3"}) {
    const std::int64_t here = document("explain", {"--layer", layer})["dropped_choices"];
    EXPECT_GT(here, 0) << layer;
    dropped += here;
  }
  EXPECT_EQ(document("compare", {})["cases"][0]["dropped_choices"], dropped);
}

Outcome fused_layer(const std::string& command, std::vector<std::string> more) {
  std::vector<std::string> all = {command,
                                  "--topology",
                                  "h800-rail",
                                  "--set",
                                  "topology.nodes=1",
                                  "--set",
                                  "topology.node.gpu=h20-measured",
                                  "--set",
                                  "model.weights=fp8",
                                  "--model",
                                  "qwen3-30b-a3b",
                                  "--synth",
                                  "tokens=16384,sequences=8,layers=1",
                                  "--tokens-per-rank",
                                  "2048",
                                  "--policy",
                                  "megamoe-hopper",
                                  "--pass",
                                  "forward",
                                  "--attention",
                                  "false",
                                  "--layers",
                                  "recorded"};
  all.insert(all.end(), more.begin(), more.end());
  return run_moesim(all, Surroundings{.data = MOESIM_ROOT});
}

TEST(ExplainCommand, ShowsAFusedLayerWaveByWave) {
  const Scratch scratch;
  const Outcome outcome = fused_layer("explain", {"--json", scratch.file("e.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("holds of the fused layer"));
  EXPECT_THAT(outcome.out, HasSubstr("received"));
  const Json page = Json::parse(content(scratch.file("e.json")));
  ASSERT_EQ(page["fused"].size(), 1u);
  const Json& fused = page["fused"][0];
  ASSERT_GT(fused["waves"].size(), 2u);
  double before = -1, rows = 0;
  for (const Json& wave : fused["waves"]) {
    EXPECT_GE(wave["begins_s"], wave["sent_s"]);
    EXPECT_GT(wave["ends_s"], wave["begins_s"]);
    EXPECT_GT(wave["left_s"].get<double>(), before);
    before = wave["left_s"];
    rows += wave["rows"].get<double>();
  }
  EXPECT_NEAR(rows, 2048 * 8, 1000);
  std::int64_t most = 0;
  for (const Json& moment : fused["moments"]) {
    std::int64_t sum = 0;
    for (const Json& bytes : moment["held"]) sum += bytes.get<std::int64_t>();
    most = std::max(most, sum);
  }
  std::int64_t peak = 0;
  for (const Json& bytes : fused["peak"]) peak += bytes.get<std::int64_t>();
  EXPECT_EQ(most, peak);
  EXPECT_EQ(fused["moments"].back()["held"]["results_bytes"], 0);
  // Other layers have no such table.
  EXPECT_THAT(explain({}).out, Not(HasSubstr("fused layer")));
}

TEST(ExplainCommand, TheTimelineCountsWhatAFusedLayerHolds) {
  const Scratch scratch;
  const Outcome outcome = fused_layer("run", {"--timeline", scratch.file("t.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json events = Json::parse(content(scratch.file("t.json")))["traceEvents"];
  double most = 0;
  int slices = 0;
  for (const Json& event : events) {
    if (event["ph"] == "X") slices += event["name"] == "fc1-wave-2" ? 1 : 0;
    if (event["ph"] != "C" || event["name"] != "fused layer 0, forward [B]") continue;
    most = std::max(most, event["args"]["results"].get<double>());
  }
  EXPECT_EQ(slices, 8);
  EXPECT_NEAR(most, 2048 * 8 * 2048 * 2, 0.1 * 2048 * 8 * 2048 * 2);
}

TEST(ExplainCommand, NoPolicyBeatsTheBound) {
  for (const char* policy : {"megatron", "dedup"}) {
    for (const char* topology : {"pair", "two-by-two"}) {
      const Scratch scratch;
      const Outcome outcome =
          run_moesim({"explain", "--topology", topology, "--model", "hand", "--trace",
                      MOESIM_ROOT "/tests/fixtures/traces/hand", "--policy", policy, "--layer", "1",
                      "--flow", "--json", scratch.file("e.json")});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const Json page = Json::parse(content(scratch.file("e.json")));
      ASSERT_EQ(page["lower_bounds"].size(), 4u);
      for (const Json& bound : page["lower_bounds"]) {
        ASSERT_EQ(bound["achieved"].size(), 3u);
        for (const Json& by : bound["achieved"]) {
          EXPECT_GE(by["over_bound"].get<double>(), 1 - 1e-9) << by;
        }
      }
    }
  }
}

// A chunk takes 32 us in its ring, the exchange of these rows 18.2 us.
TEST(ExplainCommand, NamesTheMinimumTimeThatBinds) {
  const Scratch scratch;
  const Outcome outcome = explain({"--pass", "forward", "--json", scratch.file("e.json")},
                                  MOESIM_ROOT "/models/system/deepep-normal.yaml");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("\n> dispatch-inter-1 .* 32 us  .* minimum time\n"));
  EXPECT_THAT(outcome.out, HasSubstr("transfer  minimum time\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\ndispatch-inter-1-minimum-time")));
  const Json page = Json::parse(content(scratch.file("e.json")));
  const Json& dispatch = page["steps"][1];
  EXPECT_EQ(dispatch["name"], "dispatch-inter-1");
  EXPECT_EQ(dispatch["bound_by"], "minimum time");
  EXPECT_NEAR(dispatch["closed_form"]["minimum_s"].get<double>(), 32e-6, 1e-12);
  EXPECT_GE(page["lower_bounds"][0]["achieved"][0]["alone_s"].get<double>(), 32e-6);
}

TEST(ExplainCommand, SaysWhatPlannersHaveSeen) {
  const std::string laer = MOESIM_ROOT "/models/system/laer.yaml";
  EXPECT_THAT(
      explain({}, laer).out,
      HasSubstr("\n# note: laer never planned: that first happens after 1 step, the run has "
                "1\n"));
  EXPECT_THAT(explain({"--steps", "1"}, laer).out,
              HasSubstr("\n# note: laer started cold at step 1: no step before it was seen"));
  const Outcome warm = explain({"--steps", "1", "--warmup", "1"}, laer);
  EXPECT_THAT(warm.out, HasSubstr(" of step 1 after a warm-up of 1, 2 tokens per rank"));
  EXPECT_THAT(warm.out, testing::AllOf(Not(HasSubstr("never")), Not(HasSubstr("cold")),
                                       HasSubstr("# note: laer had no slot to spare")));
}

TEST(ExplainCommand, ChoosesLayerPassAndFidelities) {
  const Outcome layer = explain({"--layer", "1", "--pass", "forward"});
  EXPECT_THAT(layer.out, HasSubstr("# layer 1 of step 0, 2 tokens per rank, forward only"));
  EXPECT_THAT(layer.out, Not(HasSubstr("backward")));
  EXPECT_THAT(layer.out, Not(HasSubstr("flow")));
  EXPECT_THAT(explain({"--flow"}).out, HasSubstr("\nlayer by itself:  port "));
  EXPECT_EQ(explain({"--flow"}).out, explain({"--fidelity", "flow"}).out);
  EXPECT_THAT(explain({"--flow"}).out, HasSubstr("  flow "));
}

TEST(ExplainCommand, RefusesALayerThatIsNotReplayed) {
  const Outcome outcome = explain({"--layer", "7"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "error: --layer 7: it is not among the replayed layers\nhint: replayed: 0, 1\n");
  EXPECT_THAT(explain({"--layers", "0", "--layer", "1"}).err, HasSubstr("hint: replayed: 0\n"));
}

TEST(DenseCommands, SayThatNoLayerHasExperts) {
  const Scratch scratch;
  Surroundings shipped;
  shipped.data = MOESIM_ROOT;
  const std::vector<std::string> dense = {"--topology",     "a100-rail", "--model",    "llama-3-8b",
                                          "--global-batch", "32",        "--sequence", "2048"};
  const auto refusal = [&](std::vector<std::string> command, bool of_scenario) {
    if (of_scenario) command.insert(command.end(), dense.begin(), dense.end());
    const Outcome outcome = run_moesim(command, shipped);
    EXPECT_EQ(outcome.code, 2) << command.front();
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(refusal({"explain", "--layer", "3"}, true),
              HasSubstr("--layer explains a layer with experts, and the model 'llama-3-8b' is"));
  EXPECT_THAT(refusal({"export", "placement", "--format", "eplb"}, true),
              HasSubstr("there is no placement: the model 'llama-3-8b' is dense"));
  EXPECT_THAT(refusal({"advise", "--ask", "mechanism"}, true), HasSubstr("is about experts"));
  const std::string trace = MOESIM_ROOT "/traces/tiny-moe-train";
  EXPECT_THAT(refusal({"trace", "check", trace, "--model", "llama-3-8b"}, false),
              HasSubstr("the model 'llama-3-8b' is dense: it routes nothing"));
  EXPECT_THAT(refusal({"trace", "synth", "--model", "llama-3-8b", "-o", scratch.file("t")}, false),
              HasSubstr("the model 'llama-3-8b' is dense: it routes nothing"));
  EXPECT_EQ(run_moesim({"explain", dense[0], dense[1], dense[2], dense[3], dense[4], dense[5],
                        dense[6], dense[7]},
                       shipped)
                .code,
            0);
}

TEST(ExplainCommand, RefusesAFileThatCannotBeWritten) {
  const Scratch scratch;
  const Outcome outcome = explain({"--json", scratch.file("no/e.json")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no folder"));
}

}  // namespace
}  // namespace moesim
