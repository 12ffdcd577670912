// SPDX-License-Identifier: Apache-2.0
// Iterations of hybrids, whose layers have only a mixer or an FFN.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "sim/model/model_flops.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

/// "ME*-MEMM" with experts in a latent: of two stages the second ends with only mixers, and with a
/// multi-token-prediction layer of attention and experts.
MoeModel hybrid() {
  return parse_moe_model(
      "name: hybrid\nsource: test\nhidden: 1024\nlayers: 8\npattern: 'ME*-MEMM'\n"
      "mamba: {heads: 16, head_dim: 64, groups: 4, state: 64, conv: 4}\n"
      "experts: 32\ntop_k: 4\nlatent: 256\nmtp: 1\nexpert_ffn: 512\nexpert_matrices: "
      "2\nactivations: bf16\n"
      "weights: bf16\ngate: {score: softmax}\nvocabulary: 32000\ndense_ffn: 4096\n"
      "attention: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 64}\n",
      "hybrid");
}

struct HybridModel {
  PipelineKind kind;
  int pp;
  std::vector<RecomputeModule> again;
};

class HybridIteration : public testing::TestWithParam<HybridModel> {
 protected:
  PlannedStep plan() const {
    const HybridModel c = GetParam();
    Spec o;
    o.spec.parallel = {.tp = 1, .pp = c.pp, .ep = 8 / c.pp, .etp = 1};
    o.spec.pipeline = c.kind;
    o.spec.overlap.all_to_all = merges_passes(c.kind);
    o.spec.global_batch = microbatches_ * 8 / c.pp;
    o.spec.sequence = 512;
    o.spec.distinct_microbatches = 2;
    for (const RecomputeModule module : c.again) o.spec.recompute.add(module);
    Planner planner(test::policy("alltoall"), topology_, model_, trace_, o);
    return planner.plan(0);
  }

  static constexpr int microbatches_ = 4;
  Topology topology_ = test::h100_nodes(1);
  MoeModel model_ = hybrid();
  RoutingTrace trace_ = test::tokens_for(model_, 16 * 512, 512);
};

TEST_P(HybridIteration, RunsEveryLayerForwardAndBackwardOnce) {
  const PlannedStep iteration = plan();
  // The kind of each block that only its layer has and runs once.
  const std::map<BlockKind, OpKind> marks = {{BlockKind::mamba, OpKind::mamba_conv},
                                             {BlockKind::attention, OpKind::attention_output},
                                             {BlockKind::dense_ffn, OpKind::dense_fc1},
                                             {BlockKind::moe, OpKind::fc1}};
  std::map<std::tuple<int, OpKind, Role>, int> gpus;
  for (const Op& op : iteration.plan.ops) {
    if (op.kernels() == nullptr || op.key.layer < 0) continue;
    gpus[{op.key.layer, op.key.kind, op.key.role}] += static_cast<int>(op.group.size());
  }
  const int each = microbatches_ * 8 / GetParam().pp;
  for (int layer = 0; layer < model_.layers; ++layer) {
    const BlockKind only = model_.pattern[static_cast<std::size_t>(layer)];
    for (const auto& [block, kind] : marks) {
      for (const Role role : {Role::plain, Role::dgrad}) {
        const int expected = block == only ? each : 0;
        EXPECT_EQ((gpus[{layer, kind, role}]), expected) << layer << " " << name_of(kind);
      }
    }
  }
}

TEST_P(HybridIteration, ComputesTheModelsFlop) {
  const PlannedStep iteration = plan();
  double products = 0;
  for (const Op& op : iteration.plan.ops) {
    const bool wanted = op.key.role != Role::recompute && !multiplies_activations(op.key.kind);
    if (op.kernels() == nullptr || !wanted || op.key.kind == OpKind::gate) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const Kernel& kernel = op.kernels()->of(m);
      if (std::holds_alternative<GroupedGemm>(kernel)) products += flops_of(kernel).value;
    }
  }
  const ModelFlops flops = training_flops(model_, {.sequence = 512});
  const double in_model = (flops.total() - flops.scores) * static_cast<double>(iteration.tokens);
  EXPECT_NEAR(products / in_model, 1, 1e-9);
}

TEST_P(HybridIteration, KeepsStateOfEveryLayerOnce) {
  const PlannedStep iteration = plan();
  double weights = 0;
  for (const MemoryPeak& peak : iteration.memory.peaks) {
    weights += static_cast<double>(peak.use.of(MemoryPart::weights).value) / 2;
  }
  const Parameters p = parameters_of(model_);
  const int replicas = 8 / GetParam().pp;  // of what is not routed
  const std::int64_t routed =
      p.routed + block_parameters(model_, model_.layers, BlockKind::moe).routed;
  // The norm behind a multi-token-prediction layer is the head's.
  const std::int64_t norms = std::int64_t{1} * model_.mtp * model_.hidden;
  const auto dense = static_cast<double>(p.total() - norms - routed);
  EXPECT_DOUBLE_EQ(weights, dense * replicas + static_cast<double>(routed));
}

INSTANTIATE_TEST_SUITE_P(
    All, HybridIteration,
    testing::Values(HybridModel{PipelineKind::one_f_one_b, 1, {}},
                    HybridModel{PipelineKind::one_f_one_b, 2, {}},
                    HybridModel{PipelineKind::zb1p, 2, {}},
                    HybridModel{PipelineKind::combined, 1, {}},
                    HybridModel{PipelineKind::one_f_one_b, 2, {RecomputeModule::moe}},
                    HybridModel{PipelineKind::one_f_one_b, 2, {RecomputeModule::full}}));

}  // namespace
}  // namespace moesim
