// SPDX-License-Identifier: Apache-2.0
// Never silently wrong: what has no effect or does not fit is told and named, and every tier's
// bytes appear on that tier only, on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

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
  const Result result = run_hand({"--set", "topology.nodes=1"});
  EXPECT_EQ(result.outcome.code, 0);
  EXPECT_EQ(result.json["warnings"], Json({"'fabric' has no effect: there is one node"}));
  EXPECT_THAT(
      result.outcome.err,
      HasSubstr("two-by-two.yaml:11:9: warning: 'fabric' has no effect: there is one node"));
  EXPECT_EQ(run_hand({}).outcome.err, "");
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
