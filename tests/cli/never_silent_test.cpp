// SPDX-License-Identifier: Apache-2.0
// Never silently wrong: what has no effect or does not fit is reported and named, and every tier's
// bytes appear on that tier only, on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

struct Result {
  Outcome outcome;
  Json json;
};

Result run(std::vector<std::string> command, const Surroundings& surroundings = {}) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  command.insert(command.end(), {"--fidelity", "analytic", "--json", file});
  Result result{run_moesim(command, surroundings), {}};
  if (result.outcome.code == 0) result.json = Json::parse(content(file));
  return result;
}

Result run_hand(const std::vector<std::string>& more) {
  return run(on_hand_trace("run", "two-by-two", {"megatron"}, more));
}

TEST(NeverSilent, ATopologyFieldWithoutEffect) {
  const Scratch scratch;
  const std::string file = scratch.file("one-node.yaml");
  std::string text = content(MOESIM_ROOT "/tests/cli/data/topologies/two-by-two.yaml");
  text.replace(text.find("nodes: 2"), 8, "nodes: 1");
  std::ofstream(file) << text;
  const Result result = run(on_hand_trace("run", file, {"megatron"}, {}));
  EXPECT_EQ(result.outcome.code, 0);
  EXPECT_EQ(result.json["warnings"], Json({"'fabric' has no effect: there is one node"}));
  EXPECT_THAT(result.outcome.err,
              HasSubstr("one-node.yaml:11:9: warning: 'fabric' has no effect: there is one node"));
  EXPECT_EQ(run_hand({}).outcome.err, "");
  EXPECT_EQ(run_hand({"--set", "topology.nodes=1"}).outcome.err, "") << "it is what was asked for";
}

TEST(NeverSilent, ATraceWiderThanTheModel) {
  const Result result = run_hand({"--set", "model.experts=2"});
  EXPECT_EQ(result.outcome.code, 2);
  EXPECT_THAT(result.outcome.err,
              HasSubstr("error: 'experts': the trace has 4 experts, the model 'hand' has 2"));
}

TEST(NeverSilent, AModelWiderThanTheTrace) {
  const Result result = run_hand({"--set", "model.experts=8"});
  EXPECT_EQ(result.outcome.code, 2);
  EXPECT_THAT(result.outcome.err, HasSubstr("'experts': the trace has 4 experts"));
}

TEST(NeverSilent, ALayerCountThatDiffers) {
  std::vector<std::string> more = {"--set", "model.layers=3", "--set", "model.moe_layers.count=3"};
  const Result warned = run_hand(more);
  EXPECT_EQ(warned.outcome.code, 0);
  EXPECT_THAT(warned.outcome.err,
              HasSubstr("warning: 'layers': the trace has 2 MoE layers (0..1), the model 'hand' "
                        "has 3 (0..2); only the recorded ones are replayed"));
  EXPECT_EQ(warned.json["warnings"].size(), 1u);
  more.insert(more.end(), {"--layers", "recorded"});
  const Result meant = run_hand(more);
  EXPECT_EQ(meant.outcome.err, "");
  EXPECT_TRUE(meant.json["warnings"].empty());
  EXPECT_EQ(meant.json["cases"], warned.json["cases"]);
}

TEST(NeverSilent, ALayerThatIsDenseInTheModel) {
  std::vector<std::string> more = {"--set", "model.layers=3", "--set", "model.moe_layers.first=1"};
  const std::string dense =
      "'layers': layer 0 is dense in the model 'hand', whose MoE layers are 1..2";
  for (const std::vector<std::string>& layers :
       {std::vector<std::string>{}, {"--layers", "0"}, {"--layers", "0,1"}}) {
    std::vector<std::string> all = more;
    all.insert(all.end(), layers.begin(), layers.end());
    const Result refused = run_hand(all);
    EXPECT_EQ(refused.outcome.code, 2);
    EXPECT_THAT(refused.outcome.err, HasSubstr("traces/hand: error: " + dense + "\nhint: replay"));
  }
  more.insert(more.end(), {"--layers", "1"});
  EXPECT_EQ(run_hand(more).outcome.code, 0);
  more.back() = "recorded";
  const Result meant = run_hand(more);
  EXPECT_EQ(meant.outcome.code, 0);
  EXPECT_THAT(meant.outcome.err, HasSubstr("traces/hand: warning: " + dense));
  EXPECT_EQ(meant.json["warnings"], Json({dense}));
}

TEST(NeverSilent, SynthesisNumbersLayersAsTheModel) {
  const Scratch scratch;
  const Surroundings shipped{.folder = scratch.path(), .data = MOESIM_ROOT};
  const auto synth = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"trace", "synth", "-o", "t", "--tokens", "64"});
    const Outcome outcome = run_moesim(more, shipped);
    const std::string text =
        outcome.code == 0 ? content(scratch.file("t/trace.json")) : outcome.err;
    std::filesystem::remove_all(scratch.file("t"));
    return text;
  };
  const std::vector<std::string> v3 = {"--model", "deepseek-v3", "--layers"};
  const auto of_v3 = [&](const std::string& layers) {
    std::vector<std::string> more = v3;
    more.push_back(layers);
    return synth(more);
  };
  EXPECT_THAT(of_v3("3"), testing::AllOf(HasSubstr("\"layers\": [3, 4, 5]"),
                                         HasSubstr("\"experts\": 256"), HasSubstr("\"top_k\": 8")));
  EXPECT_THAT(of_v3("60:1"), HasSubstr("\"layers\": [60]"));
  EXPECT_EQ(
      of_v3("1:4"),
      "error: --layers: layers 1..2 are dense in the model 'deepseek-v3', whose MoE layers are "
      "3..60\n");
  EXPECT_EQ(of_v3("59"), "error: --layers: 59 layers; there are from 1 to 58\n");
  EXPECT_THAT(synth({"--layers", "3:2"}), HasSubstr("\"layers\": [3, 4]"));
  EXPECT_THAT(synth({"--layers", "2"}), HasSubstr("\"layers\": [0, 1]"));
  EXPECT_THAT(synth({"--layers", "0"}), HasSubstr("error: --layers: 0 layers"));
}

/// The recorded trace on H100 nodes of 8, every byte on the shortest way: no hop over NVLink
/// towards another rail.
Result place(const std::string& nodes, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"run",
                                      "--topology",
                                      "h100-rail",
                                      "--model",
                                      "tiny-moe",
                                      "--trace",
                                      MOESIM_ROOT "/traces/tiny-moe-train",
                                      "--policy",
                                      "dedup",
                                      "--steps",
                                      "0",
                                      "--set",
                                      "topology.nodes=" + nodes};
  if (nodes != "1") {
    command.insert(command.end(), {"--set", "topology.fabric.cross_rail=spine", "--set",
                                   "topology.fabric.latency=1 us"});
  }
  command.insert(command.end(), more.begin(), more.end());
  return run(command, {.data = MOESIM_ROOT});
}

struct Ranks {
  const char* nodes;
  int gpus;
  std::vector<std::string> flags;
};

void PrintTo(const Ranks& ranks, std::ostream* out) { *out << ranks.gpus; }

class Replaced : public testing::TestWithParam<Ranks> {};

TEST_P(Replaced, EveryTiersBytesAreOnThatTierOnly) {
  const Result result = place(GetParam().nodes, GetParam().flags);
  ASSERT_EQ(result.outcome.code, 0) << result.outcome.err;
  const Json& c = result.json["cases"][0];
  EXPECT_EQ(c["gpus"], GetParam().gpus);
  const Json& traffic = c["total"]["traffic"];
  const auto same_host = traffic["same_host_bytes"].get<std::int64_t>();
  const auto other_host = traffic["other_host_bytes"].get<std::int64_t>();
  EXPECT_GT(same_host, 0);
  EXPECT_EQ(other_host > 0, GetParam().gpus > 8);
  const Json& links = traffic["link_class_bytes"];
  EXPECT_EQ(links["nvlink"], 2 * same_host);  // GPU to switch, switch to GPU
  EXPECT_EQ(links["pcie"], 2 * other_host);   // GPU to NIC, NIC to GPU
  EXPECT_EQ(links["nic"], 2 * other_host);    // NIC to leaf, leaf to NIC
}

INSTANTIATE_TEST_SUITE_P(Nodes, Replaced,
                         testing::Values(Ranks{"1", 8, {}}, Ranks{"4", 32, {}},
                                         Ranks{"32", 256, {"--repeat", "8"}}),
                         [](const auto& ranks) { return std::to_string(ranks.param.gpus); });

TEST(NeverSilent, ATraceTooShortForTheRanksAsksForRepeat) {
  const Result result = place("32", {});
  EXPECT_EQ(result.outcome.code, 2);
  EXPECT_THAT(result.outcome.err, HasSubstr("trace 'tiny-moe-train' is too short"));
  EXPECT_THAT(result.outcome.err, HasSubstr("hint: `repeat: 8` plays its sequences often enough"));
}

}  // namespace
}  // namespace moesim
