// SPDX-License-Identifier: Apache-2.0
// Layers of multi-token prediction are layers of the iteration.
#include <gtest/gtest.h>

#include <map>

#include "sim/model/model_flops.h"
#include "sim/planner/iteration/stage_layers.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

class MtpTest : public testing::TestWithParam<PipelineKind> {
 protected:
  static MoeModel model(int mtp) {
    MoeModel m = test::whole(8);
    m.mtp = mtp;
    return m;
  }
  /// GEMM flop of forward kernels per token, by kind; of layers from `first` on.
  std::map<OpKind, double> flop(int mtp, int tp, int first = 0) const {
    const Topology topology = test::h100_nodes(2);
    const MoeModel m = model(mtp);
    const RoutingTrace trace = test::tokens_for(m, 32 * 512, 512);
    Spec o;
    o.spec.parallel = {.tp = tp, .pp = 2, .ep = 4, .etp = 1};
    if (GetParam() == PipelineKind::combined_interleaved) o.spec.parallel.vpp = 2;
    o.spec.pipeline = GetParam();
    o.spec.overlap.all_to_all = merges_passes(GetParam());
    o.spec.global_batch = 32;
    o.spec.sequence = 512;
    Planner planner(test::policy("alltoall"), topology, m, trace, o);
    const PlannedStep iteration = planner.plan(0);
    std::map<OpKind, double> flop;
    for (const Op& op : iteration.plan.ops) {
      if (op.kernels() == nullptr || op.key.pass != Pass::forward || op.key.layer < first) continue;
      for (std::size_t g = 0; g < op.group.size(); ++g) {
        flop[op.key.kind] +=
            flops_of(op.kernels()->of(g)).value / static_cast<double>(iteration.tokens);
      }
    }
    return flop;
  }
};

TEST_P(MtpTest, ComputesTheModelsFlop) {
  for (const int tp : {1, 2}) {
    for (const int mtp : {0, 1, 2}) {
      auto of = flop(mtp, tp);
      FlopCount count;
      count.sequence = 512;
      const ModelFlops expected = training_flops(model(mtp), count);
      EXPECT_NEAR(of[OpKind::mtp_projection] * 3, expected.mtp, 1e-9 * expected.total());
      EXPECT_NEAR(of[OpKind::head] * 3, expected.head, 1e-9 * expected.total());
      EXPECT_NEAR((of[OpKind::fc1] + of[OpKind::fc2]) * 3, expected.routed,
                  1e-9 * expected.total());
      EXPECT_NEAR((of[OpKind::attention_projections] + of[OpKind::attention_output]) * 3,
                  expected.projections, 1e-9 * expected.total());
    }
  }
}

TEST_P(MtpTest, IsALayerBehindTheLast) {
  auto of = flop(1, 1, 8);
  EXPECT_NEAR((of[OpKind::fc1] + of[OpKind::fc2]) / (2.0 * 4 * 3 * 1024 * 512), 1, 1e-9);
  EXPECT_NEAR(of[OpKind::head] / (2.0 * 1024 * 32000), 1, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MtpTest,
                         testing::Values(PipelineKind::one_f_one_b,
                                         PipelineKind::combined_interleaved, PipelineKind::zb1p,
                                         PipelineKind::dualpipe, PipelineKind::dualpipev,
                                         PipelineKind::zbv, PipelineKind::v_min));

TEST(PredictedTokens, TravelFromTheirLayersOn) {
  const LayerLayout layout("Ett|tt|m|L", {.layers = 4, .mtp = 1, .pp = 2});
  std::vector<int> tensors;
  for (int position = 0; position < 4; ++position) {
    tensors.push_back(predicted_by(layout, position));
  }
  EXPECT_EQ(tensors, (std::vector{0, 0, 1, 1}));
}

}  // namespace
}  // namespace moesim
