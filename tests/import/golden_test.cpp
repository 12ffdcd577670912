// SPDX-License-Identifier: Apache-2.0
// Importers and statistics against the published golden statistics of recorded traces.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/import/importer.h"
#include "sim/trace/statistics.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string shared_traces = std::string(MOESIM_SHARED) + "/traces";

void expect_golden(const RoutingTrace& trace, const json& golden) {
  const auto stats = measure(trace, {.ranks = {2, 4, 8, 16}});
  const auto near = [](double value, const json& expected) {
    EXPECT_NEAR(value, expected.get<double>(), 1e-6);
  };
  EXPECT_EQ(stats.tokens, golden["tokens"]);
  EXPECT_EQ(stats.sequences, golden["sequences"]);
  EXPECT_EQ(stats.shortest_sequence, golden["seq_len_min_median_max"][0]);
  EXPECT_EQ(stats.median_sequence, golden["seq_len_min_median_max"][1]);
  EXPECT_EQ(stats.longest_sequence, golden["seq_len_min_median_max"][2]);
  std::int64_t ids = 0, squares = 0;
  for (const auto& layer : stats.counts) {
    for (const auto count : layer) ids += count, squares += count * count;
  }
  EXPECT_EQ(ids, golden["selections"]);
  EXPECT_EQ(squares, golden["counts_sum_of_squares"]);
  EXPECT_EQ(stats.counts_crc32, golden["counts_crc32"].get<std::string>());
  EXPECT_EQ(stats.counts_fnv1a64, golden["counts_fnv1a64"].get<std::string>());
  near(stats.expert_max_over_mean.mean(), golden["expert_max_over_mean_mean_over_layers"]);
  near(stats.expert_max_over_mean.max(), golden["expert_max_over_mean_max_over_layers"]);
  near(stats.expert_load_cv.mean(), golden["expert_load_cv_mean_over_layers"]);
  near(stats.previous_token_overlap.mean(), golden["prev_token_same_layer_overlap"]);
  near(stats.uniform_overlap, golden["uniform_overlap"]);
  for (const auto& ranks : stats.ranks) {
    const auto& groups = golden["contiguous_" + std::to_string(ranks.ranks) + "_groups"];
    near(ranks.distinct_ranks, groups["mean_distinct_groups_per_token"]);
    near(ranks.rank_max_over_mean.mean(), groups["group_load_max_over_mean_mean_over_layers"]);
    near(ranks.rank_max_over_mean.max(), groups["group_load_max_over_mean_max_over_layers"]);
  }
}

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(shared_traces)) GTEST_SKIP() << "no recorded traces at " << shared_traces;
    golden_ = json::parse(std::ifstream(shared_traces + "/golden_stats.json"));
  }

  RoutingTrace import(const std::string& kind, ImportOptions options) {
    options.output = scratch_ / "trace";
    fs::remove_all(options.output);
    import_trace(kind, options);
    return RoutingTrace::open(options.output);
  }
  RoutingTrace import_esft_task(const std::string& task) {
    ImportOptions options;
    options.inputs = {shared_traces + "/esft_deepseek_v2_lite/" + task + ".npz"};
    options.experts = 64;
    for (int l = 1; l <= 26; ++l) options.layers.push_back(l);
    return import("npz", options);
  }

  ScratchFolder scratch_;
  json golden_;
};

TEST_F(Golden, EsftLaw) {
  expect_golden(import_esft_task("law"), golden_["esft_deepseek_v2_lite/law"]);
}

TEST_F(Golden, EsftTranslation) {
  expect_golden(import_esft_task("translation"), golden_["esft_deepseek_v2_lite/translation"]);
}

TEST_F(Golden, EsftTextEqualsItsArray) {
  const auto array = import_esft_task("law");
  ImportOptions options;
  fs::copy(shared_traces + "/esft_deepseek_v2_lite/raw_law_expert_weights_13.txt.gz",
           scratch_ / "expert_weights_13.txt.gz");
  options.inputs = {scratch_ / "expert_weights_13.txt.gz"};
  options.experts = 64;
  options.top_k = 6;
  const auto text = import("esft", options);
  ASSERT_EQ(text.info().layers, std::vector{13});
  ASSERT_EQ(text.total_tokens(), array.total_tokens());
  for (std::int64_t t = 0; t < text.total_tokens(); ++t) {
    for (int k = 0; k < 6; ++k) {
      ASSERT_EQ(text.step(0).ids(0).at(t, k), array.step(0).ids(12).at(t, k));
      ASSERT_EQ(text.step(0).weight(0, t, k), array.step(0).weight(12, t, k));
    }
  }
}

TEST_F(Golden, GptOss) {
  ImportOptions options;
  options.inputs = {shared_traces + "/gptoss20b_decode/ids_u8_T_L_K.npz"};
  options.experts = 32;
  options.layers.resize(24);
  std::iota(options.layers.begin(), options.layers.end(), 0);
  const auto array = import("npz", options);
  expect_golden(array, golden_["gptoss20b_decode"]);

  options = {};
  options.inputs = {shared_traces +
                    "/gptoss20b_decode/raw_example_mmlu_dev_high_school_physics_27810.json.gz"};
  options.experts = 32;
  const auto request = import("gpt-oss", options);
  ASSERT_EQ(request.total_tokens(), 57);
  ASSERT_EQ(request.info().layers.size(), 24u);
  const auto lengths = array.step(0).sequence_lengths();
  const auto first = std::accumulate(lengths.begin(), lengths.begin() + 138, std::int64_t{0});
  ASSERT_EQ(lengths[138], 57);
  for (int l = 0; l < 24; ++l) {
    for (std::int64_t t = 0; t < 57; ++t) {
      for (int k = 0; k < 4; ++k) {
        ASSERT_EQ(request.step(0).ids(l).at(t, k), array.step(0).ids(l).at(first + t, k));
      }
    }
  }
}

}  // namespace
}  // namespace moesim
