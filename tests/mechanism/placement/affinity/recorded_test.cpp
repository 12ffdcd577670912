// SPDX-License-Identifier: Apache-2.0
// Placements learnt from one part of a recorded trace and judged on another.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "sim/import/importer.h"
#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/affinity/exflow.h"
#include "sim/mechanism/placement/affinity/grace.h"
#include "sim/mechanism/placement/affinity/grouping.h"
#include "sim/mechanism/placement/affinity/moetuner.h"
#include "sim/mechanism/placement/affinity/occult.h"
#include "tests/mechanism/placement/affinity/judged.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

constexpr int recorded_experts = 64, recorded_layers = 26, recorded_gpus = 8;

/// DeepSeek-V2-Lite on legal texts: 8,327 tokens, top 6.
class RecordedChoices : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string folder = std::string(MOESIM_SHARED) + "/traces";
    if (!fs::exists(folder)) return;
    const fs::path output =
        fs::temp_directory_path() / ("moesim-affinity-" + std::to_string(getpid()));
    ImportOptions options;
    options.inputs = {folder + "/esft_deepseek_v2_lite/law.npz"};
    options.output = output;
    options.experts = recorded_experts;
    for (int l = 1; l <= recorded_layers; ++l) options.layers.push_back(l);
    import_trace("npz", options);
    trace_.emplace(RoutingTrace::open(output));
    fs::remove_all(output);  // the files stay mapped
  }
  static void TearDownTestSuite() { trace_.reset(); }
  void SetUp() override {
    if (!trace_) GTEST_SKIP() << "no recorded traces in " << MOESIM_SHARED << "/traces";
  }

  /// Tokens [begin, end) of a layer, as shares of all.
  static IdRows rows(int layer, double begin, double end) {
    const IdRows all = trace_->step(0).ids(layer);
    const auto tokens = static_cast<double>(all.tokens());
    const auto first = static_cast<std::int64_t>(begin * tokens);
    const auto last = static_cast<std::int64_t>(end * tokens);
    const auto* data = static_cast<const std::uint8_t*>(all.data());
    return IdRows(data + first * all.top_k() * all.width(), all.width(), all.top_k(), last - first);
  }
  static IdRows profile(int layer) { return rows(layer, 0, 0.5); }
  static IdRows test(int layer) { return rows(layer, 0.5, 1); }

  static std::vector<PairMatrix> flow(bool of_profile) {
    std::vector<PairMatrix> flow;
    for (int l = 0; l + 1 < recorded_layers; ++l) {
      flow.push_back(of_profile ? transitions(profile(l), profile(l + 1), recorded_experts)
                                : transitions(test(l), test(l + 1), recorded_experts));
    }
    return flow;
  }

  /// Mean C_T of the test half over layers, each placed by its profile.
  template <class Place>
  static double copies(Place&& place) {
    double sum = 0;
    for (int l = 0; l < recorded_layers; ++l) {
      const IdRows tokens = test(l);
      const std::vector<GpuId> source(static_cast<std::size_t>(tokens.tokens()), GpuId(0));
      const SlotTable table = place(co_choices(profile(l), recorded_experts));
      sum += token_copies(tokens, owners_of(table), source).gpus;
    }
    return sum / recorded_layers;
  }
  static double contiguous_copies() {
    return copies([](const PairMatrix&) {
      return contiguous_placement(recorded_experts, recorded_gpus, recorded_gpus).table();
    });
  }

  static std::optional<RoutingTrace> trace_;
};
std::optional<RoutingTrace> RecordedChoices::trace_;

TEST_F(RecordedChoices, CopiesOfContiguousPlacementAreThePublishedDistinctRanks) {
  const std::map<int, double> expected = {{8, 4.553334}, {16, 5.315346}};
  for (const auto& [ranks, mean] : expected) {
    const auto gpu_of = owners_of(contiguous_placement(recorded_experts, ranks, ranks).table());
    double sum = 0;
    for (int l = 0; l < recorded_layers; ++l) {
      const IdRows tokens = rows(l, 0, 1);
      const std::vector<GpuId> source(static_cast<std::size_t>(tokens.tokens()), GpuId(0));
      sum += token_copies(tokens, gpu_of, source).gpus;
    }
    EXPECT_NEAR(sum / recorded_layers, mean, 1e-6);
  }
}

TEST_F(RecordedChoices, OccultAndGraceAndGroupsNeedFewerCopiesOnUnseenTokens) {
  const double contiguous = contiguous_copies();
  const double occult =
      copies([](const PairMatrix& co) { return place_occult(co, recorded_gpus); });
  const double grace = copies([](const PairMatrix& co) { return place_grace(co, 2, 4); });
  const double groups = copies([](const PairMatrix& co) {
    return SlotTable(
        similar_groups(without_weak_pairs(co_choice_similarity(co)), recorded_gpus, 1));
  });
  EXPECT_LT(occult, 0.8 * contiguous);
  EXPECT_LT(grace, 0.8 * contiguous);
  EXPECT_LT(groups, 0.8 * contiguous);
}

TEST_F(RecordedChoices, ExflowCutsFewerTransitionsOfUnseenTokens) {
  const auto learnt = place_exflow(flow(true), recorded_experts, 2, 4, {.kicks = 4});
  const std::vector<SlotTable> contiguous(
      recorded_layers,
      contiguous_placement(recorded_experts, recorded_gpus, recorded_gpus).table());
  const auto unseen = flow(false);
  const double before = exflow_score(unseen, contiguous, 4);
  const double after = exflow_score(unseen, learnt, 4);
  EXPECT_LT(after, 0.8 * before);
}

TEST_F(RecordedChoices, MoetunerShortensTheSlowestPairsOfUnseenTokens) {
  MoetunerInput input{
      .loads = {}, .transitions = flow(true), .seconds_per_token = {}, .gpus = recorded_gpus};
  for (int l = 0; l < recorded_layers; ++l) {
    std::vector<std::int64_t> loads(recorded_experts);
    const IdRows tokens = profile(l);
    for (std::int64_t t = 0; t < tokens.tokens(); ++t)
      for (int k = 0; k < tokens.top_k(); ++k) ++loads[static_cast<std::size_t>(tokens.at(t, k))];
    input.loads.push_back(loads);
  }
  for (int g = 0; g < recorded_gpus; ++g)
    for (int h = 0; h < recorded_gpus; ++h)
      input.seconds_per_token.push_back(g == h ? 0 : g / 4 == h / 4 ? 1 : 8);
  const MoetunerPlacement learnt = place_moetuner(input);
  const std::vector<SlotTable> contiguous(
      recorded_layers,
      contiguous_placement(recorded_experts, recorded_gpus, recorded_gpus).table());
  input.transitions = flow(false);
  const double before = moetuner_seconds(input, contiguous);
  const double after = moetuner_seconds(input, learnt.layers);
  EXPECT_LT(after, 0.8 * before);
  EXPECT_LE(learnt.spread, 1);
}

}  // namespace
}  // namespace moesim
