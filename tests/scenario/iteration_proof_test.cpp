// SPDX-License-Identifier: Apache-2.0
// Every token of an iteration reaches its experts and returns, layer by layer.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/scenario/proof.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

struct ProvenCase {
  const char* policy;
  PipelineKind kind;
  int pp, ep, etp;
};

class IterationProof : public testing::TestWithParam<ProvenCase> {
 protected:
  static Spec spec() {
    const ProvenCase& c = GetParam();
    Spec spec;
    spec.spec.parallel.pp = c.pp;
    spec.spec.parallel.ep = c.ep;
    spec.spec.parallel.tp = c.etp;
    spec.spec.parallel.etp = c.etp;
    spec.spec.pipeline = c.kind;
    spec.spec.global_batch = 16;
    spec.spec.sequence = 64;
    return spec;
  }
  const Topology topology_ = test::h100_nodes(1);
  const MoeModel model_ = test::whole(5);
  const RoutingTrace trace_ = test::tokens_for(model_, 4096, 64);
};

TEST_P(IterationProof, HoldsForEveryLayerOfEveryMicrobatch) {
  Planner planner(test::policy(GetParam().policy), topology_, model_, trace_, spec());
  const PlannedStep planned = planner.plan(0);
  const std::size_t microbatches = static_cast<std::size_t>(planner.microbatches().distinct);
  EXPECT_EQ(prove_each_layer(planner, planned), 4 * microbatches);
}

/// As if the iteration sent one byte less than its tokens need.
TEST_P(IterationProof, FailsIfTheIterationMovesOtherBytes) {
  Planner planner(test::policy(GetParam().policy), topology_, model_, trace_, spec());
  PlannedStep planned = planner.plan(0);
  int layer = 0;
  for (Op& op : planned.plan.ops) {
    const bool combine = op.key.stage == Stage::combine && op.exchange() != nullptr;
    if (!combine || !carries_tokens(op.stream)) continue;
    op.key.microbatch = 100;
    layer = op.key.layer;
    break;
  }
  try {
    prove_each_layer(planner, planned);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics().front().message,
              "layer " + std::to_string(layer) +
                  ", microbatch 100: its exchanges move other bytes than its tokens need");
  }
}

INSTANTIATE_TEST_SUITE_P(All, IterationProof,
                         testing::Values(ProvenCase{"alltoall", PipelineKind::one_f_one_b, 1, 8, 1},
                                         ProvenCase{"dedup", PipelineKind::one_f_one_b, 2, 4, 1},
                                         ProvenCase{"deepep-normal", PipelineKind::combined, 2, 2,
                                                    1},
                                         ProvenCase{"eplb", PipelineKind::zb1p, 2, 4, 1},
                                         ProvenCase{"llep", PipelineKind::gpipe, 1, 4, 1},
                                         ProvenCase{"megatron", PipelineKind::one_f_one_b, 2, 2, 2},
                                         ProvenCase{"alltoall", PipelineKind::dualpipe, 2, 2, 1}),
                         [](const auto& one) {
                           std::string name =
                               std::string(one.param.policy) + "_" + std::to_string(one.index);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moesim
