// SPDX-License-Identifier: Apache-2.0
// Saved steps read back as they were planned; files that are not whole or do not fit are refused.
#include "sim/saved/saved_steps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/gzip.h"
#include "sim/saved/cluster_json.h"
#include "sim/saved/step_json.h"
#include "sim/scenario/executable_steps.h"
#include "sim/topology/reader.h"
#include "tests/saved/saved_file.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

struct Planned {
  explicit Planned(Scenario of)
      : scenario(std::move(of)),
        inputs(open_inputs(scenario)),
        origin(origin_of(scenario, inputs, inputs.clusters[0], "1.2.3")),
        policies(plan_all(scenario, inputs, inputs.clusters[0])) {}

  const Topology& cluster() const { return inputs.clusters[0].topology; }
  std::string packed() const { return pack_steps(origin, cluster(), policies); }

  Scenario scenario;
  Inputs inputs;
  StepsOrigin origin;
  std::vector<SavedPolicy> policies;
};

Planned plan_steps() {
  Planned p(read_scenario("", {{"topology", "hiermoe-a6000", "t"},
                               {"model", "tiny-moe", "m"},
                               {"trace", MOESIM_ROOT "/traces/tiny-moe-train", "r"},
                               {"policy", "[dedup, deepspeed, laer]", "p"},
                               {"transport", "ideal", "t"},  // files hold none
                               {"steps", "'2:4'", "s"},
                               {"tokens_per_rank", "8", "k"},
                               {"layers", "[1, 3]", "l"},
                               {"set", "topology.nodes=2", "--set"},
                               {"set", "topology.node.gpus=2", "--set"}}));
  p.policies.push_back({"elsewhere", "needs attention", {}});
  return p;
}

const Planned& planned() {
  static const Planned p = plan_steps();
  return p;
}

class SavedStepsFile : public testing::Test {
 protected:
  ~SavedStepsFile() override { std::filesystem::remove(path_); }

  SavedSteps read(const std::string& content) {
    write_file(path_, content);
    return read_steps(path_);
  }
  std::string complaint(const std::string& content) {
    try {
      read(content);
    } catch (const Error& e) {
      EXPECT_EQ(e.diagnostics()[0].file.rfind(path_, 0), 0U) << e.what();
      return e.what();
    }
    return "";
  }
  std::vector<std::string> lines(const std::string& content) {
    write_file(path_, content);
    return test::saved_lines(path_);
  }
  /// Changes a step's JSON, and then every hash so that they fit.
  template <class Change>
  std::string rewritten(std::size_t line, Change change) {
    std::vector<std::string> all = lines(planned().packed());
    all.pop_back();
    return test::rewritten(std::move(all), line, change);
  }
  static std::string hashed(std::vector<std::string> lines) {
    lines.pop_back();
    return test::hashed(lines);
  }

  std::string path_ =
      (std::filesystem::temp_directory_path() / ("saved-steps-" + std::to_string(::getpid())))
          .string();
};

void expect_equal(const ServedLayer& a, const ServedLayer& b) {
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.top_k, b.top_k);
  EXPECT_EQ(a.placement.table(), b.placement.table());
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.expert, b.expert);
  EXPECT_EQ(a.slot, b.slot);
}

TEST_F(SavedStepsFile, ReadsBackWhatWasPlanned) {
  const SavedSteps steps = read(planned().packed());
  EXPECT_EQ(steps.origin.moesim, "1.2.3");
  EXPECT_EQ(steps.origin.scenario, planned().origin.scenario);
  EXPECT_EQ(steps.origin.trace.hash, planned().inputs.trace_file().hash);
  EXPECT_EQ(steps.origin.hidden, planned().inputs.model.hidden);
  EXPECT_TRUE(steps.origin.gated);
  ASSERT_EQ(steps.policies.size(), 4U);
  EXPECT_EQ(steps.policies[3].unsuitable, "needs attention");
  for (std::size_t p = 0; p < 4; ++p) {
    const SavedPolicy& policy = planned().policies[p];
    EXPECT_EQ(steps.policies[p].name, policy.name);
    EXPECT_EQ(steps.policies[p].unsuitable, policy.unsuitable);
    ASSERT_EQ(steps.policies[p].steps.size(), p == 3 ? 0U : 2U);
    for (std::size_t s = 0; s < policy.steps.size(); ++s) {
      const ExecutableStep &was = policy.steps[s], &is = steps.policies[p].steps[s];
      EXPECT_EQ(is.number, 2 + static_cast<int>(s));
      EXPECT_EQ(is.plan, was.plan);
      EXPECT_EQ(is.planning, was.planning);
      EXPECT_EQ(is.peak_memory, was.peak_memory);
      EXPECT_EQ(is.dropped_choices, was.dropped_choices);
      ASSERT_EQ(is.layers.size(), 2U);
      for (std::size_t l = 0; l < 2; ++l) expect_equal(is.layers[l], was.layers[l]);
    }
  }
  EXPECT_GT(steps.policies[1].steps[0].dropped_choices, 0);
}

TEST_F(SavedStepsFile, KeepsTheCluster) {
  const Topology& was = planned().cluster();
  const SavedSteps steps = read(planned().packed());
  const Topology& is = steps.cluster;
  EXPECT_EQ(is.name(), was.name());
  EXPECT_EQ(is.exchange_overhead(), was.exchange_overhead());
  EXPECT_EQ(is.peer_overhead(), was.peer_overhead());
  ASSERT_EQ(is.links().size(), was.links().size());
  const GroupTraffic traffic = [&] {
    for (const Op& op : planned().policies[0].steps[0].plan.ops) {
      if (op.exchange()) return op.traffic();
    }
    throw std::logic_error("no exchange");
  }();
  EXPECT_EQ(is.loads(traffic).uses, was.loads(traffic).uses);
  for (std::size_t i = 0; i < was.levels().size(); ++i) {
    EXPECT_EQ(is.levels()[i].group_of, was.levels()[i].group_of);
  }
}

TEST_F(SavedStepsFile, PacksTheSameStepsIntoTheSameBytes) {
  const std::string packed = planned().packed();
  const SavedSteps steps = read(packed);
  EXPECT_EQ(pack_steps(steps.origin, steps.cluster, steps.policies), packed);
  EXPECT_EQ(plan_steps().packed(), packed);
}

TEST_F(SavedStepsFile, RefusesWhatIsCutShort) {
  const std::string packed = planned().packed();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{10}, packed.size() / 2,
                                 packed.size() - 8, packed.size() - 1}) {
    EXPECT_NE(complaint(packed.substr(0, size)), "") << size;
  }
  std::vector<std::string> all = lines(packed);
  std::string text;
  for (const std::string& line : all) {
    EXPECT_NE(complaint(gzipped(text)), "") << text.size();
    text += line;
  }
  EXPECT_EQ(complaint(gzipped(text)), "");
  EXPECT_THAT(complaint(gzipped(text + "{}\n")), HasSubstr("the last line is not a hash"));
}

TEST_F(SavedStepsFile, TellsWhichLineWasAltered) {
  std::vector<std::string> all = lines(planned().packed());
  for (std::size_t line = 0; line + 1 < all.size(); ++line) {
    std::vector<std::string> altered = all;
    std::string& text = altered[line];
    const std::size_t at = text.find("\"step");
    ASSERT_NE(at, std::string::npos);
    text.insert(at, " ");
    std::string joined;
    for (const std::string& l : altered) joined += l;
    EXPECT_THAT(complaint(gzipped(joined)),
                AllOf(HasSubstr(line == 0 ? ":8: error" : fmt::format(":{}: error", line + 1)),
                      HasSubstr("not as it was written"), HasSubstr("hint: write it again")));
  }
  all.back() = Json{{"xxh3", "0"}}.dump() + "\n";
  std::string joined;
  for (const std::string& line : all) joined += line;
  EXPECT_THAT(complaint(gzipped(joined)), HasSubstr("the file is not as it was written"));
}

TEST_F(SavedStepsFile, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(complaint("moesim-plan 1\n"), HasSubstr("is not in gzip's form"));
  EXPECT_THAT(complaint(gzipped("moesim-plan 1\n")), HasSubstr(":1: error: holds no saved steps"));
  EXPECT_THAT(complaint(gzipped("")), HasSubstr("holds no saved steps"));
  EXPECT_THAT(complaint(rewritten(0, [](Json& json) { json["format_version"] = 7; })),
              HasSubstr(":1: error: is of version 7; this program reads version 3"));
}

TEST_F(SavedStepsFile, RefusesWhatDoesNotFitTogether) {
  const auto broken = [this](auto change) { return complaint(rewritten(1, change)); };
  EXPECT_EQ(broken([](Json&) {}), "");
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["slot"].erase(3); }),
              HasSubstr(":2: error: layer 1: 32 tokens of 4 choices have 128 experts and 127"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["slot"][3] = 1000; }),
              HasSubstr("is served by slot 1000, which does not hold it"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][1]["expert"][3] = -1; }),
              HasSubstr("choice 3 of expert -1"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["slots"].erase(3); }), HasSubstr("no GPU holds"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["slots"].push_back(Json::array()); }),
              HasSubstr("placed on 5 GPUs, the plan has 4"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["top_k"] = 33; }), HasSubstr("top_k is 33"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["slot"][3] = std::int64_t{1} << 32; }),
              HasSubstr("4294967296 is not an id"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["tokens"][1] = 9'000'000'000'000'000'000; }),
              HasSubstr("GPU 1 has 9000000000000000000 tokens, all choices are 128"));
  EXPECT_THAT(broken([](Json& j) { j["layers"][0]["tokens"][1] = -1; }),
              HasSubstr("GPU 1 has -1 tokens"));
  EXPECT_THAT(broken([](Json& j) { j["layers"].erase(1); }),
              HasSubstr("of layer 3: moves tokens, but the layer has no routing"));
  EXPECT_THAT(broken([](Json& j) { j.erase("planning_s"); }), HasSubstr("planning_s"));
  EXPECT_THAT(broken([](Json& j) { j["step"] = "x"; }), HasSubstr("type must be number"));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return broken([&](Json& j) {
      std::string plan = j["plan"];
      const std::size_t at = plan.find(from);
      ASSERT_NE(at, std::string::npos);
      plan.replace(at, from.size(), to);
      j["plan"] = plan;
    });
  };
  EXPECT_THAT(replaced("compute", "compote"),
              AllOf(HasSubstr("line 2, the plan of dedup:"), HasSubstr("did you mean 'compute'?")));
  EXPECT_THAT(replaced("rows 0 -> 0:", "rows 0 -> 99:"), HasSubstr("moves token 99"));
}

/// An iteration of two stages of four GPUs each, with tensor groups of two.
const Planned& planned_iteration() {
  static const Planned p(read_scenario(MOESIM_ROOT "/scenarios/iteration-hardware.yaml",
                                       {{"transport", "ideal", "t"},  // files hold none
                                        {"parallel.tp", "2", "t"},
                                        {"parallel.etp", "1", "e"},
                                        {"parallel.ep", "2", "e"},
                                        {"batch.global", "4", "b"},
                                        {"pipeline", "interleaved", "p"},
                                        {"parallel.vpp", "2", "v"}}));
  return p;
}

TEST_F(SavedStepsFile, ReadsBackAnIteration) {
  const std::string packed = planned_iteration().packed();
  const SavedSteps steps = read(packed);
  EXPECT_TRUE(steps.origin.iteration);
  EXPECT_EQ(pack_steps(steps.origin, steps.cluster, steps.policies), packed);
  const ExecutableStep &was = planned_iteration().policies[0].steps.at(0),
                       &is = steps.policies[0].steps.at(0);
  EXPECT_EQ(is.plan, was.plan);
  ASSERT_EQ(is.layers.size(), was.layers.size());
  for (std::size_t l = 0; l < is.layers.size(); ++l) {
    EXPECT_EQ(is.layers[l].microbatch, was.layers[l].microbatch);
    expect_equal(is.layers[l], was.layers[l]);
  }
  ASSERT_TRUE(is.iteration);
  const HeldIteration &held = *is.iteration, &planned = *was.iteration;
  ASSERT_EQ(held.stages.size(), 2U);
  EXPECT_EQ(held.tp, 2);
  EXPECT_EQ(held.rows(), planned.rows());
  EXPECT_EQ(held.positions(), 4);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(held.stages[s].gpus, planned.stages[s].gpus);
    EXPECT_EQ(held.stages[s].rings, planned.stages[s].rings);
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_EQ(held.stages[s].chunks[c].position, planned.stages[s].chunks[c].position);
      EXPECT_EQ(held.stages[s].chunks[c].parts, planned.stages[s].chunks[c].parts);
    }
  }
  EXPECT_EQ(held.model.moe_layers, planned.model.moe_layers);
  EXPECT_EQ(held.model.expert_parameters(), planned.model.expert_parameters());
  EXPECT_EQ(held.model.attention->shape->projections(held.model.hidden),
            planned.model.attention->shape->projections(held.model.hidden));
}

TEST_F(SavedStepsFile, RefusesAnIterationThatDoesNotFitTogether) {
  std::vector<std::string> all = lines(planned_iteration().packed());
  all.pop_back();
  const auto broken = [&](auto change) { return complaint(test::rewritten(all, 1, change)); };
  const auto held = [&](auto change) { return broken([&](Json& j) { change(j["iteration"]); }); };
  const auto stage = [&](auto change) { return held([&](Json& j) { change(j["stages"][1]); }); };
  EXPECT_EQ(broken([](Json&) {}), "");
  EXPECT_THAT(held([](Json& j) { j["tp"] = 4; }), HasSubstr("tp = 4 does not divide 2"));
  EXPECT_THAT(held([](Json& j) { j["zero"] = 2; }), HasSubstr("zero is 2"));
  EXPECT_THAT(held([](Json& j) { j["sequence"] = 0; }), HasSubstr("'sequence' of the iteration"));
  EXPECT_THAT(held([](Json& j) { j["sequence"] = 8; }), HasSubstr("has 32 tokens of 16"));
  EXPECT_THAT(held([](Json& j) { j["microbatches"] = 3; }), HasSubstr("has no routing"));
  EXPECT_THAT(held([](Json& j) { j["stages"].erase(1); }), HasSubstr("is not on one stage"));
  EXPECT_THAT(held([](Json& j) {
                j["model"]["moe_layers"] = {1, 2};
              }),
              HasSubstr("is not of the iteration"));
  EXPECT_THAT(held([](Json& j) {
                j["model"]["moe_layers"] = {3, 2};
              }),
              HasSubstr("MoE layer 2 of 4 layers"));
  EXPECT_THAT(held([](Json& j) { j["model"]["experts"] = 16; }), HasSubstr("has other experts"));
  EXPECT_THAT(held([](Json& j) { j["model"]["kv_heads"] = 3; }), HasSubstr("4 heads share 3"));
  EXPECT_THAT(held([](Json& j) { j["model"]["expert_matrices"] = 4; }), HasSubstr("2 or 3"));
  EXPECT_THAT(stage([](Json& j) { j["gpus"] = {4, 5, 7, 6}; }), HasSubstr("not in order"));
  EXPECT_THAT(stage([](Json& j) { j["gpus"] = {3, 4, 5, 6}; }), HasSubstr("not on one stage"));
  EXPECT_THAT(stage([](Json& j) { j["gpus"] = {4, 5}; }), HasSubstr("different numbers"));
  EXPECT_THAT(stage([](Json& j) { j["gpus"] = {4, 5, 6, 8}; }), HasSubstr("GPU 8 is not of the"));
  EXPECT_THAT(stage([](Json& j) { j["chunks"][0]["position"] = 0; }), HasSubstr("a position of"));
  EXPECT_THAT(stage([](Json& j) { j["chunks"][0]["parts"].erase(0); }), HasSubstr("a part of the"));
  EXPECT_THAT(stage([](Json& j) {
                j["chunks"][0]["parts"][0] = {{"layer", 4}};
              }),
              HasSubstr("{\"layer\":4} is not a part of the model"));
  EXPECT_THAT(stage([](Json& j) { j["rings"].erase(1); }), HasSubstr("lacks rings"));
  EXPECT_THAT(stage([](Json& j) { j["rings"][0][0] = {4, 5}; }), HasSubstr("a ring does not pass"));
  EXPECT_THAT(stage([](Json& j) { j["rings"][0] = Json::array(); }), HasSubstr("have no ring"));
  EXPECT_THAT(broken([](Json& j) { j["layers"].push_back(j["layers"][0]); }),
              HasSubstr("is there twice"));
  EXPECT_THAT(broken([](Json& j) {
                j["layers"].push_back(j["layers"][0]);
                j["layers"].back()["microbatch"] = j["iteration"]["microbatches"];
              }),
              HasSubstr("is not of the iteration"));
  EXPECT_THAT(broken([](Json& j) { j.erase("iteration"); }),
              HasSubstr(":2: error: has no iteration, which line 1 says it is"));
}

TEST_F(SavedStepsFile, HasTheSizesOfItsModelAndWhatAStepReplaced) {
  const auto with = [this](std::size_t line, const char* key, int value) {
    return rewritten(line, [&](Json& json) { json[key] = value; });
  };
  for (const char* const key : {"hidden", "expert_ffn"}) {
    EXPECT_THAT(complaint(with(0, key, 0)), HasSubstr("the model has no sizes"));
    EXPECT_EQ(complaint(with(0, key, 1)), "");
  }
  EXPECT_EQ(read(with(1, "replaced_choices", 5)).policies[0].steps[0].replaced_choices, 5);
  for (const bool backward : {false, true}) {
    const auto change = [&](Json& json) { json["backward"] = backward; };
    EXPECT_EQ(read(rewritten(0, change)).origin.backward, backward);
  }
  EXPECT_EQ(lines(planned().packed())[1].find("microbatch"), std::string::npos) << "no iteration";
}

TEST_F(SavedStepsFile, CountsItsSteps) {
  std::vector<std::string> all = lines(planned().packed());
  std::vector<std::string> fewer = all;
  fewer.erase(fewer.begin() + 6);
  EXPECT_THAT(complaint(hashed(fewer)), HasSubstr(":1: error: lists more steps than there are"));
  std::vector<std::string> more = all;
  more.insert(more.begin() + 7, more[6]);
  EXPECT_THAT(complaint(hashed(more)), HasSubstr(":8: error: has steps that line 1 does not list"));
  std::swap(all[1], all[2]);
  EXPECT_THAT(complaint(hashed(all)), HasSubstr(":2: error: the step is not as it was written"));
}

// Files of 0.2.0 have the largest rate of a table as its link's bandwidth.
TEST(SavedCluster, HasTheAsymptoteOfItsTables) {
  const Topology t = std::move(
      parse_topology("nodes: 1\nnode:\n  gpu: x\n  gpus: 3\n  nvlink:\n    kind: switch\n"
                     "    latency: 1 us\n    crowded: {pairs: 2, bandwidth: 1 GB/s}\n"
                     "    bandwidth: [{size: 1 MB, rate: 8 GB/s}, {size: 4 MB, rate: 2 GB/s}]\n",
                     "t")
          .topology);
  Json json = cluster_json(t);
  for (Json& link : json["links"]) {
    link["bytes_per_s"] = 8e9;
    link["crowded"][2] = 4e9;
  }
  const Topology read = read_cluster(json);
  EXPECT_EQ(read.links().front().bandwidth, BytesPerSecond(2e9));
  EXPECT_EQ(read.links().front().crowded.bandwidth, BytesPerSecond(1e9));
}

}  // namespace
}  // namespace moesim
