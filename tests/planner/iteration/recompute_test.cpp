// SPDX-License-Identifier: Apache-2.0
// What the backward pass computes again, counted.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "sim/model/parameters.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

class RecomputeInIterations : public testing::TestWithParam<PipelineKind> {
 protected:
  PlannedStep plan(const Recompute& recompute, const char* policy = "alltoall") const {
    Spec o;
    o.spec.parallel = {.tp = 2, .cp = 2, .pp = 2, .vpp = 1, .ep = 8, .etp = 1};
    o.spec.pipeline = GetParam();
    o.spec.overlap.all_to_all = merges_passes(GetParam());
    o.spec.global_batch = 16;
    o.spec.sequence = 512;
    o.spec.recompute = recompute;
    Planner planner(test::policy(policy), topology_, model_, trace_, o);
    return planner.plan(0);
  }

  /// What an op does, without whether it does it again.
  using Work = std::tuple<OpKind, Stage, int, int, int, int>;
  static Work work_of(const Op& op) {
    const OpKey& k = op.key;
    return {k.kind, k.stage, k.layer, k.microbatch, k.chunk, k.part};
  }
  static double moved_or_computed(const Op& op) {
    if (op.exchange() != nullptr) {
      return static_cast<double>(op.exchange()->traffic.total().value);
    }
    double flop = 0;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      flop += flops_of(op.kernels()->of(m)).value;
    }
    return flop;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = with_shared_experts();
  RoutingTrace trace_ = test::tokens_for(model_, 32 * 512, 512);

 private:
  static MoeModel with_shared_experts() {
    MoeModel model = test::whole(6);
    model.shared_experts = 1;
    model.shared_ffn = 512;
    return model;
  }
};

/// Ops of the layers, by their work: how many, and what they compute or move.
struct Counted {
  int ops = 0;
  double sum = 0;
  bool operator==(const Counted&) const = default;
};

TEST_P(RecomputeInIterations, OfWholeLayersRunsTheirForwardOnceMore) {
  const PlannedStep iteration = plan({RecomputeModule::full});
  std::map<Work, Counted> forward, again;
  for (const Op& op : iteration.plan.ops) {
    const bool forwards = op.key.pass == Pass::forward;
    if (op.key.layer < 0 || op.key.kind == OpKind::head || op.key.kind == OpKind::loss) continue;
    if (op.key.kind == OpKind::embedding) continue;
    if (!forwards && op.key.role != Role::recompute) continue;
    Counted& counted = (forwards ? forward : again)[work_of(op)];
    ++counted.ops;
    counted.sum += moved_or_computed(op);
  }
  EXPECT_GT(forward.size(), 100u);
  // What is around the layers is of none, but has a number, too.
  std::erase_if(forward, [&](const auto& entry) {
    const auto& [kind, stage, layer, microbatch, chunk, part] = entry.first;
    // An exchange's part has one bit more: whether it gathers.
    if (kind == OpKind::norm) return block_in(part) == BlockKind::head;
    const BlockKind block = block_in(part / 2);
    return kind == OpKind::tensor_exchange &&
           (block == BlockKind::head || block == BlockKind::embedding);
  });
  EXPECT_EQ(forward, again);
}

TEST_P(RecomputeInIterations, OfWholeLayersTakesFourThirdsOfTheirFlop) {
  const auto flop_of_layers = [&](const Recompute& recompute) {
    double sum = 0;
    for (const Op& op : plan(recompute).plan.ops) {
      if (op.kernels() == nullptr || op.key.kind == OpKind::head) continue;
      // A fused backward of the scores computes 2.5 times as much as their forward.
      if (op.key.kind == OpKind::attention_scores) continue;
      sum += moved_or_computed(op);
    }
    return sum;
  };
  EXPECT_NEAR(flop_of_layers({RecomputeModule::full}) / flop_of_layers({}), 4.0 / 3, 1e-9);
}

TEST_P(RecomputeInIterations, OfAModuleAddsItsKernelsAlone) {
  const auto added = [&](const Recompute& recompute) {
    std::map<OpKind, int> ops;  // of one layer and microbatch
    for (const Op& op : plan(recompute).plan.ops) {
      const bool here = op.key.layer == 4 && op.key.microbatch == 1;
      if (op.key.role == Role::recompute && here) ++ops[op.key.kind];
    }
    return ops;
  };
  using Ops = std::map<OpKind, int>;
  EXPECT_EQ(added({}), Ops());
  EXPECT_EQ(added({RecomputeModule::moe_act}), (Ops{{OpKind::activation, 1}}));
  EXPECT_EQ(added({RecomputeModule::shared_experts}),
            (Ops{{OpKind::shared_fc1, 1}, {OpKind::shared_fc2, 1}}));
  EXPECT_EQ(added({RecomputeModule::layernorm}), (Ops{{OpKind::norm, 1}}));
  const Ops moe = added({RecomputeModule::moe});
  EXPECT_EQ(moe.at(OpKind::fc1), 1);
  EXPECT_EQ(moe.at(OpKind::shared_fc1), 1);
  EXPECT_EQ(moe.at(OpKind::token_exchange), 2);
  EXPECT_EQ(moe.count(OpKind::norm), 0u);
  EXPECT_EQ(added({RecomputeModule::moe, RecomputeModule::moe_act}), moe);
  Ops with_norm = moe;
  with_norm[OpKind::norm] = 1;
  EXPECT_EQ(added({RecomputeModule::moe, RecomputeModule::layernorm}), with_norm);
}

TEST_P(RecomputeInIterations, GathersExpertsOnceForBothOfABackwardPass) {
  const auto gathers = [&](const Recompute& recompute) {
    std::map<Pass, int> count;
    for (const Op& op : plan(recompute, "laer").plan.ops) {
      if (op.key.stage == Stage::gather && op.key.kind == OpKind::parameter_exchange) {
        ++count[op.key.pass];
      }
    }
    return count;
  };
  EXPECT_EQ(gathers({RecomputeModule::moe}), gathers({}));
}

/// Of a model whose file describes only experts and the weights of attention.
TEST(RecomputeOfCoarseModels, RunsTheAttentionOfAllLayersAgain) {
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 16 * 64, 64);
  Spec o;
  o.spec.parallel.ep = 8;
  o.spec.global_batch = 16;
  o.spec.sequence = 64;
  o.spec.recompute = {RecomputeModule::full};
  Planner planner(test::policy("alltoall"), topology, model, trace, o);
  std::map<int, int> ops;  // [layer]
  for (const Op& op : planner.plan(0).plan.ops) {
    const bool scores = op.key.kind == OpKind::attention_scores;
    if (scores && op.key.role == Role::recompute) ++ops[op.key.layer];
  }
  EXPECT_EQ(ops, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));  // 2 microbatches
}

/// Gradients of scores are by activations, which nobody keeps; those of projections may wait.
TEST(CoarseModels, HaveGradientsOfAttentionInTheirOrder) {
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 16 * 64, 64);
  for (const auto& [kind, expected] :
       {std::pair(PipelineKind::zb1p,
                  "attention-scores-dgrad attention-scores-wgrad attention-projections-dgrad "
                  "attention-projections-wgrad "),
        {PipelineKind::one_f_one_b,
         "attention-scores-dgrad attention-projections-dgrad attention-scores-wgrad "
         "attention-projections-wgrad "}}) {
    Spec o;
    o.spec.pipeline = kind;
    o.spec.parallel = {.tp = 1, .pp = 2, .ep = 4, .etp = 1};
    o.spec.global_batch = 16;
    o.spec.sequence = 64;
    Planner planner(test::policy("alltoall"), topology, model, trace, o);
    std::map<int, std::string> labels;  // [layer]
    for (const Op& op : planner.plan(0).plan.ops) {
      const bool attention =
          op.key.kind == OpKind::attention_scores || op.key.kind == OpKind::attention_projections;
      if (attention && op.key.pass == Pass::backward && op.key.microbatch == 0) {
        labels[op.key.layer] += op.label.text() + " ";
      }
    }
    ASSERT_EQ(labels.size(), 4u);
    for (const auto& [layer, words] : labels) EXPECT_EQ(words, expected) << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecomputeInIterations,
                         testing::Values(PipelineKind::one_f_one_b, PipelineKind::zb1p,
                                         PipelineKind::dualpipe));

}  // namespace
}  // namespace moesim
