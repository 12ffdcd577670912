// SPDX-License-Identifier: Apache-2.0
// Whole models on grids of all kinds: bounds that every iteration keeps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

struct Case {
  PipelineKind kind;
  int tp, pp, vpp, ep, etp = 1;
};

class WholeModel : public testing::TestWithParam<Case> {
 protected:
  Spec options() const {
    const Case c = GetParam();
    Spec o;
    o.spec.parallel = {.tp = c.tp, .pp = c.pp, .vpp = c.vpp, .ep = c.ep, .etp = c.etp};
    o.spec.pipeline = c.kind;
    o.spec.overlap.all_to_all = merges_passes(c.kind);
    o.spec.global_batch = 16 / c.tp / c.pp * 8;
    o.spec.sequence = 512;
    o.spec.distinct_microbatches = 2;
    return o;
  }
  PlannedStep plan(const Spec& o) const {
    Planner planner(test::policy("alltoall"), topology_, model_, trace_, o);
    return planner.plan(0);
  }

  struct Product {
    const Op& op;
    const GroupedGemm& gemm;
  };
  static std::vector<Product> products_of(const PlannedStep& iteration) {
    std::vector<Product> products;
    for (const Op& op : iteration.plan.ops) {
      if (op.kernels() == nullptr) continue;
      if (const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(0))) {
        products.push_back({op, *gemm});
      }
    }
    return products;
  }

  Topology topology_ = test::h100_nodes(2);
  MoeModel model_ = test::whole(8);
  RoutingTrace trace_ = test::tokens_for(model_, 32 * 512, 512);
};

TEST_P(WholeModel, ComputesWhatTheModelAsksOnce) {
  const PlannedStep iteration = plan(options());
  std::map<OpType, double> flop;
  for (const Op& op : iteration.plan.ops) {
    if (op.kernels() == nullptr) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      flop[op.key.type()] += flops_of(op.kernels()->of(m)).value;
    }
  }
  const double tokens = static_cast<double>(iteration.tokens);
  const double experts = 2.0 * tokens * 4 * 3 * 1024 * 512 * 7;
  EXPECT_NEAR((flop[{OpKind::fc1}] + flop[{OpKind::fc2}]) / experts, 1, 1e-9);
  const double dense = 2.0 * tokens * 3 * 1024 * 4096;
  EXPECT_NEAR((flop[{OpKind::dense_fc1}] + flop[{OpKind::dense_fc2}]) / dense, 1, 1e-9);
  for (const OpKind kind : {OpKind::fc1, OpKind::fc2, OpKind::dense_fc1, OpKind::dense_fc2}) {
    for (const Role role : {Role::dgrad, Role::wgrad}) {
      EXPECT_NEAR((flop[{kind, role, Pass::backward}]) / flop[{kind}], 1, 1e-9) << name_of(kind);
    }
  }
}

TEST_P(WholeModel, IsNoFasterThanItsBusiestGpuAndItsPartsAddUp) {
  const PlannedStep iteration = plan(options());
  const auto backend = make_port_backend(topology_, test::h100s(16));
  const IterationTimes times = iteration_times(iteration.plan, backend->run(iteration.plan));
  EXPECT_GE(times.iteration, times.slowest_compute);
  double sum = 0;
  for (const Seconds part : times.parts) {
    EXPECT_GE(part.value, 0);
    sum += part.value;
  }
  EXPECT_NEAR(sum / times.iteration.value, 1, 1e-9);
}

TEST_P(WholeModel, SumsEveryGradientOnceAndUpdatesOnEveryGpu) {
  const PlannedStep iteration = plan(options());
  std::multiset<int> summed;
  std::size_t updated = 0;
  for (const Op& op : iteration.plan.ops) {
    if (op.key.kind == OpKind::gradient_sum) summed.insert(op.key.layer);
    if (op.key.kind == OpKind::optimizer) updated += op.group.size();
  }
  EXPECT_EQ(updated, 16u);
  const Case c = GetParam();
  const std::size_t groups = static_cast<std::size_t>(16 / c.pp / c.ep / c.etp);
  const std::size_t copies = c.kind == PipelineKind::dualpipe ? 2 : 1;
  for (int layer = 1; layer < 8; ++layer) {
    EXPECT_EQ(summed.count(layer), groups * copies > 1 ? 1 : 0) << layer;
  }
}

TEST_P(WholeModel, MultipliesByWeightsInTheTypeThatIsAskedFor) {
  Spec o = options();
  o.spec.precision.format = TrainingPrecision::fp8;
  const PlannedStep iteration = plan(o);
  for (const auto& [op, gemm] : products_of(iteration)) {
    const OpKind kind = op.key.kind;
    const bool bf16 =
        kind == OpKind::gate || kind == OpKind::attention_scores || kind == OpKind::head;
    EXPECT_EQ(gemm.type, bf16 ? DataType::bf16 : DataType::fp8) << op.label;
  }
}

TEST_P(WholeModel, AttendsInTheFormatWhereScoresAreAPart) {
  Spec o = options();
  o.spec.precision = {
      .format = TrainingPrecision::mxfp8, .parts = {GemmPart::scores}, .last_bf16_layers = 1};
  int attended = 0;
  for (const Op& op : plan(o).plan.ops) {
    if (op.kernels() == nullptr) continue;
    const Kernel& kernel = op.kernels()->of(0);
    const auto* attention = std::get_if<FusedAttention>(&kernel);
    const DataType type = attention && op.key.layer < 7 ? DataType::fp8 : DataType::bf16;
    EXPECT_EQ(type_of(kernel).value_or(DataType::bf16), type) << op.label;
    attended += attention != nullptr ? 1 : 0;
  }
  EXPECT_GT(attended, 0);
}

TEST_P(WholeModel, FusedGroupedMlpHasNoActivationOfItsOwn) {
  Spec o = options();
  o.spec.precision.format = TrainingPrecision::mxfp8;
  const auto kinds = [&] {
    std::map<std::string, int> count;
    for (const Op& op : plan(o).plan.ops) ++count[name_of(op.key.type())];
    return count;
  };
  auto apart = kinds();
  o.spec.fused_grouped_mlp = true;
  EXPECT_EQ(apart.erase("activation") + apart.erase("activation-grad"), 2u);
  EXPECT_EQ(kinds(), apart);
}

TEST_P(WholeModel, LeavesPartsAndLayersInBf16) {
  Spec o = options();
  o.spec.precision = {.format = TrainingPrecision::mxfp8,
                      .parts = {GemmPart::experts, GemmPart::attention},
                      .first_bf16_layers = 2,
                      .last_bf16_layers = 1,
                      .bf16_weight_gradients = true};
  std::set<OpKind> quantized;
  const PlannedStep iteration = plan(o);
  for (const auto& [op, gemm] : products_of(iteration)) {
    const OpKind kind = op.key.kind;
    const bool expert = kind == OpKind::fc1 || kind == OpKind::fc2;
    const bool attends = kind == OpKind::attention_projections || kind == OpKind::attention_output;
    const bool inner = op.key.layer >= 2 && op.key.layer < 7;
    const bool in_format = (expert || attends) && inner && op.key.role != Role::wgrad;
    EXPECT_EQ(gemm.type, in_format ? DataType::fp8 : DataType::bf16) << op.label;
    if (in_format) quantized.insert(kind);
  }
  EXPECT_EQ(quantized.size(), 4u);
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name =
      fmt::format("{}_tp{}_pp{}_vpp{}_ep{}_etp{}", name_of(info.param.kind), info.param.tp,
                  info.param.pp, info.param.vpp, info.param.ep, info.param.etp);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Grids, WholeModel,
    testing::Values(
        Case{PipelineKind::one_f_one_b, 1, 1, 1, 16}, Case{PipelineKind::one_f_one_b, 1, 1, 1, 8},
        Case{PipelineKind::one_f_one_b, 2, 2, 1, 4}, Case{PipelineKind::one_f_one_b, 4, 4, 1, 4},
        Case{PipelineKind::one_f_one_b, 2, 2, 1, 2, 2}, Case{PipelineKind::combined, 1, 2, 1, 4, 2},
        Case{PipelineKind::dualpipe, 1, 4, 1, 2, 2}, Case{PipelineKind::gpipe, 1, 4, 1, 2},
        Case{PipelineKind::interleaved, 1, 2, 2, 8}, Case{PipelineKind::combined, 1, 2, 1, 8},
        Case{PipelineKind::combined_interleaved, 2, 2, 2, 8}, Case{PipelineKind::zb1p, 1, 4, 1, 4},
        Case{PipelineKind::dualpipe, 1, 4, 1, 4}, Case{PipelineKind::dualpipev, 1, 2, 1, 8},
        Case{PipelineKind::zbv, 1, 2, 1, 8}, Case{PipelineKind::v_half, 1, 2, 1, 8}),
    name_of_case);

}  // namespace
}  // namespace moesim
