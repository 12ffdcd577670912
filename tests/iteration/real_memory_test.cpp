// SPDX-License-Identifier: Apache-2.0
// Planned peaks against those that real runs allocated. Sources: docs/memory-of-iterations.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/iteration/fixtures.h"

namespace moesim {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024, gb = 1e9;

MoeModel first_layers(const std::string& name, int layers) {
  MoeModel model = read_moe_model(data_file("models/moe", name));
  model.layers = layers;
  model.mtp = 0;
  model.moe_layers.resize(static_cast<std::size_t>(layers - 1));
  std::iota(model.moe_layers.begin(), model.moe_layers.end(), 1);
  return model;
}

double peak_bytes(const MoeModel& model, const IterationOptions& options) {
  static const Topology topology = test::h100_nodes(1);
  const int replicas = 8 / options.spec.parallel.tp / options.spec.parallel.pp;
  const RoutingTrace trace = test::tokens_for(model, std::int64_t{replicas} * options.spec.sequence,
                                              options.spec.sequence);
  IterationPlanner planner(test::policy("alltoall"), topology, model, trace, options);
  const IterationMemory memory = planner.plan(0).memory;
  const MemoryPeak& peak = memory.peaks[fullest(memory.peaks).index()];
  const double bytes = static_cast<double>(peak.use.total().value);
  testing::Test::RecordProperty("gib", std::to_string(bytes / gib));
  testing::Test::RecordProperty("parts", text_of_parts(peak.use));
  testing::Test::RecordProperty("when", peak.when());
  return bytes;
}

struct CutModel {
  std::string model;
  int pp, ep;
  double gib;
};

class SimuMaxPeak : public testing::TestWithParam<CutModel> {};

TEST_P(SimuMaxPeak, IsPredictedWithin5Percent) {
  const CutModel run = GetParam();
  // The fullest GPU starts from the first microbatches; later ones add nothing to it.
  IterationOptions options;
  options.spec.parallel = {.tp = 1, .pp = run.pp, .ep = run.ep, .etp = 1};
  options.spec.global_batch = 4 * 8 / run.pp;
  options.spec.sequence = 4096;
  options.spec.distinct_microbatches = 1;
  options.state = {4, 12};
  EXPECT_NEAR(peak_bytes(first_layers(run.model, 4), options) / gib / run.gib, 1, 0.05);
}
INSTANTIATE_TEST_SUITE_P(
    B200, SimuMaxPeak,
    testing::Values(CutModel{"deepseek-v2", 1, 8, 45.63}, CutModel{"deepseek-v2", 2, 4, 44.70},
                    CutModel{"deepseek-v3", 1, 8, 104.30}, CutModel{"deepseek-v3", 2, 4, 114.00}),
    [](const auto& run) {
      return (run.param.model == "deepseek-v2" ? "deepseek_v2_pp" : "deepseek_v3_pp") +
             std::to_string(run.param.pp);
    });

double moonlight(const Recompute& recompute) {
  IterationOptions options;
  options.spec.parallel = {.tp = 2, .ep = 8, .etp = 1};
  options.spec.global_batch = 4;
  options.spec.sequence = 4096;
  options.spec.recompute = recompute;
  options.state = {2, 8};  // gradients and moments in bf16, master weights in fp32
  return peak_bytes(read_moe_model(data_file("models/moe", "moonlight-16b-a3b")), options) / gb;
}

TEST(MoonlightPeak, IsPredictedWithin5Percent) {
  const double none = moonlight({}), scores = moonlight({RecomputeModule::core_attn});
  EXPECT_NEAR(none / 36.618, 1, 0.05);
  EXPECT_NEAR(scores / 36.614, 1, 0.05);
  EXPECT_NEAR(none - scores, 36.618 - 36.614, 0.001);
}

/// What was measured is the peak since the process began, which some other moment bounds below.
TEST(MoonlightPeak, RecomputationSavesNoLessThanMeasured) {
  const double none = moonlight({});
  const Recompute activation{RecomputeModule::moe_act}, up{RecomputeModule::mla_up_proj};
  EXPECT_GE(none - moonlight(activation), 36.618 - 35.941);
  EXPECT_GE(none - moonlight(up), 36.618 - 35.902);
  EXPECT_GE(none - moonlight({RecomputeModule::mla_up_proj, RecomputeModule::mlp}),
            36.618 - 35.917);
  EXPECT_GE(none - moonlight({RecomputeModule::layernorm, RecomputeModule::moe_act}),
            36.618 - 35.949);
}

}  // namespace
}  // namespace moesim
