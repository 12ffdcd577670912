// SPDX-License-Identifier: Apache-2.0
// Planned peaks against the peaks that real runs allocated. Sources: docs/memory-of-iterations.md.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024, gb = 1e9;

/// One dense layer and three MoE layers.
MoeModel first_four_layers(const std::string& name) {
  MoeModel model = read_moe_model(data_file("models/moe", name));
  model.layers = 4;
  model.mtp = 0;
  model.moe_layers = {1, 2, 3};
  return model;
}

/// Peaks do not depend on the GPU model.
double peak_bytes(const MoeModel& model, const Spec& options, int nodes = 1) {
  const Topology topology = test::h100_nodes(nodes);
  const int replicas = 8 * nodes / options.spec.parallel.tp / options.spec.parallel.pp;
  const RoutingTrace trace = test::tokens_for(model, std::int64_t{replicas} * options.spec.sequence,
                                              options.spec.sequence);
  Planner planner(test::policy("alltoall"), topology, model, trace, options);
  const StepMemory memory = planner.plan(0).memory;
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
  double measured_gib;
};

class SimuMaxPeak : public testing::TestWithParam<CutModel> {};

TEST_P(SimuMaxPeak, IsPredictedWithin5Percent) {
  const CutModel run = GetParam();
  // The fullest GPU starts from the first microbatches; later ones add nothing to it.
  Spec options;
  options.spec.parallel = {.tp = 1, .pp = run.pp, .ep = run.ep, .etp = 1};
  options.spec.global_batch = 4 * 8 / run.pp;
  options.spec.sequence = 4096;
  options.spec.distinct_microbatches = 1;
  options.state = {4, 12};
  EXPECT_NEAR(peak_bytes(first_four_layers(run.model), options) / gib / run.measured_gib, 1, 0.05);
}
INSTANTIATE_TEST_SUITE_P(
    B200, SimuMaxPeak,
    testing::Values(CutModel{"deepseek-v2", 1, 8, 45.63}, CutModel{"deepseek-v2", 2, 4, 44.70},
                    CutModel{"deepseek-v3", 1, 8, 104.30}, CutModel{"deepseek-v3", 2, 4, 114.00}),
    [](const auto& run) {
      return (run.param.model == "deepseek-v2" ? "deepseek_v2_pp" : "deepseek_v3_pp") +
             std::to_string(run.param.pp);
    });

double moonlight_peak_gb(const Recompute& recompute, int update_bytes = 4) {
  Spec options;
  options.spec.parallel = {.tp = 2, .ep = 8, .etp = 1};
  options.spec.global_batch = 4;
  options.spec.sequence = 4096;
  options.spec.recompute = recompute;
  options.state = {2, 8};  // gradients and moments in bf16, master weights in fp32
  options.spec.update_bytes = update_bytes;  // the optimizer copies gradients to fp32
  return peak_bytes(read_moe_model(data_file("models/moe", "moonlight-16b-a3b")), options) / gb;
}

struct Recomputed {
  const char* name;
  Recompute modules;
  double measured_gb;
  double outputs_gb;  // of the modules in bf16, all layers: an upper bound
};

const std::vector<Recomputed> recomputed = {
    {"none", {}, 36.618, 0},
    {"core_attn", {RecomputeModule::core_attn}, 36.614, 0.01},
    {"moe_act", {RecomputeModule::moe_act}, 35.941, 1.2},
    {"mla_up_proj", {RecomputeModule::mla_up_proj}, 35.902, 1.13},
    {"mla_up_proj_mlp", {RecomputeModule::mla_up_proj, RecomputeModule::mlp}, 35.917, 1.27},
    {"layernorm_moe_act", {RecomputeModule::layernorm, RecomputeModule::moe_act}, 35.949, 1.65}};

class MoonlightPeak : public testing::TestWithParam<Recomputed> {};

TEST_P(MoonlightPeak, IsPredictedWithin5Percent) {
  EXPECT_NEAR(moonlight_peak_gb(GetParam().modules) / GetParam().measured_gb, 1, 0.05);
}

INSTANTIATE_TEST_SUITE_P(H100, MoonlightPeak, testing::ValuesIn(recomputed),
                         [](const auto& run) { return run.param.name; });

const Recomputed& recomputed_named(const std::string& name) {
  return *std::ranges::find(recomputed, name, &Recomputed::name);
}

/// Without the update, whose peak caps the measured saving.
class MoonlightSaving : public testing::TestWithParam<Recomputed> {};

TEST_P(MoonlightSaving, IsWhatWasMeasuredOrMoreButNotMoreThanTheModulesKeep) {
  const double saved = moonlight_peak_gb({}, 0) - moonlight_peak_gb(GetParam().modules, 0);
  EXPECT_GE(saved, recomputed_named("none").measured_gb - GetParam().measured_gb - 1e-3);
  EXPECT_LE(saved, GetParam().outputs_gb);
}
INSTANTIATE_TEST_SUITE_P(H100, MoonlightSaving,
                         testing::ValuesIn(recomputed.begin() + 1, recomputed.end()),
                         [](const auto& run) { return run.param.name; });

/// The update's peak is the same whatever the passes drop.
TEST(MoonlightUpdate, BoundsWhatRecomputationSaves) {
  const double bound = moonlight_peak_gb(recomputed_named("moe_act").modules);
  for (const char* name : {"moe_act", "mla_up_proj", "mla_up_proj_mlp", "layernorm_moe_act"}) {
    const Recompute& modules = recomputed_named(name).modules;
    EXPECT_EQ(moonlight_peak_gb(modules), bound) << name;
    EXPECT_GT(bound, moonlight_peak_gb(modules, 0)) << name;
  }
  const Recomputed& core_attn = recomputed_named("core_attn");
  EXPECT_NEAR(moonlight_peak_gb({}, 0) - moonlight_peak_gb(core_attn.modules, 0),
              recomputed_named("none").measured_gb - core_attn.measured_gb, 0.001);
}

struct NemotronRun {
  const char* name;
  Recompute modules;
  TrainingState state;
  int update_bytes;
  double measured_gb;
};

class NemotronPeak : public testing::TestWithParam<NemotronRun> {};

/// 16 GPUs, forced balance. Moments do not exist before the first update.
TEST_P(NemotronPeak, IsPredictedWithin1Percent) {
  Spec options;
  options.spec.parallel = {.tp = 1, .ep = 8, .etp = 1};
  options.spec.global_batch = 16;
  options.spec.sequence = 8192;
  options.spec.recompute = GetParam().modules;
  options.state = GetParam().state;
  options.spec.update_bytes = GetParam().update_bytes;
  const MoeModel model = read_moe_model(data_file("models/moe", "nemotron-3-nano"));
  EXPECT_NEAR(peak_bytes(model, options, 2) / gb / GetParam().measured_gb, 1, 0.01);
}
INSTANTIATE_TEST_SUITE_P(
    H100, NemotronPeak,
    testing::Values(NemotronRun{"none_step_1", {}, {2, 4}, 12, 66.297},
                    NemotronRun{"moe_act_step_1", {RecomputeModule::moe_act}, {2, 4}, 12, 62.103},
                    NemotronRun{"moe", {RecomputeModule::moe}, {2, 12}, 4, 64.653},
                    NemotronRun{"moe_layernorm",
                                {RecomputeModule::moe, RecomputeModule::layernorm},
                                {2, 12},
                                4,
                                63.639}),
    [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace moesim
