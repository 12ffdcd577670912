// SPDX-License-Identifier: Apache-2.0
// Muon: whole matrices dealt out to replicas, the products of their updates, and their memory.
#include "sim/planner/iteration/muon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

TEST(DealOut, GivesWholeMatricesToTheReplicaThatHasLeast) {
  const WeightMatrix large{8, 4}, middle{4, 4}, small{2, 4};
  const auto dealt = deal_out({{large, 1}, {middle, 2}, {small, 3}}, 2);
  // 32 | 16 16 | then 8 in turn: the first on equal loads.
  EXPECT_EQ(dealt[0], (MatrixCounts{{large, 1}, {small, 2}}));
  EXPECT_EQ(dealt[1], (MatrixCounts{{middle, 2}, {small, 1}}));
}

TEST(DealOut, LeavesReplicasWithoutWorkIfThereAreFewMatrices) {
  const auto dealt = deal_out({{{8, 4}, 3}}, 5);
  std::vector<std::int64_t> parameters;
  for (const MatrixCounts& each : dealt) parameters.push_back(parameters_of(each));
  EXPECT_THAT(parameters, testing::ElementsAre(32, 32, 32, 0, 0));
}

TEST(NewtonSchulz, TakesTheFlopsOfItsFiveSteps) {
  for (const WeightMatrix matrix : {WeightMatrix{3, 7}, WeightMatrix{7, 3}}) {
    double flops = 0;
    for (const GroupedGemm& product : newton_schulz(matrix, 2)) flops += flops_of(product).value;
    EXPECT_DOUBLE_EQ(flops, 5.0 * 2 * (4 * 3 * 3 * 7 + 2 * 3 * 3 * 3));
  }
}

/// Of all_chosen's layer: queries, keys and values 1024 x 1536, output 1024 x 1024; one expert per
/// GPU and EP group: 1024 x 1024 and 512 x 1024.
class MuonTest : public IterationMemoryTest {
 protected:
  static constexpr std::int64_t attention = 1024 * (1536 + 1024), expert = 1024 * (1024 + 512);
  static constexpr double steps = newton_schulz_steps;
  static double orthogonalize(double m, double n) {
    return steps * (4 * m * m * n + 2 * m * m * m);
  }

  Spec muon(int ep, int zero) const {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
    o.spec.parallel.ep = ep;
    o.spec.optimizer = OptimizerKind::muon;
    o.spec.zero = zero;
    o.state.optimizer = 8;
    return o;
  }
  Plan plan(const Spec& o, const std::string& policy = "alltoall") const {
    const MoeModel model = all_chosen(layers);
    const auto trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
    Planner planner(test::policy(policy), topology_, model, trace, o);
    return planner.plan(0).plan;
  }
  /// [GPU] flop of the products of updates.
  static std::vector<double> flops(const Plan& plan) {
    std::vector<double> sum(static_cast<std::size_t>(plan.gpus));
    for (const Op& op : plan.ops) {
      if (op.key.kind != OpKind::optimizer) continue;
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        sum[op.group[m].index()] += flops_of(op.kernels()->of(m)).value;
      }
    }
    return sum;
  }
  static constexpr int layers = 2;
};

TEST_F(MuonTest, UpdatesEveryMatrixOnOneReplica) {
  // Experts of a GPU have no replica at ep 8.
  const double of_experts = layers * (orthogonalize(1024, 1024) + orthogonalize(512, 1024));
  const double of_attention = layers * (orthogonalize(1024, 1536) + orthogonalize(1024, 1024));
  double sum = 0;
  for (const double each : flops(plan(muon(8, 1)))) {
    EXPECT_GE(each, of_experts);
    sum += each;
  }
  EXPECT_NEAR(sum, 8 * of_experts + of_attention, 1);
}

TEST_F(MuonTest, UpdatesAllOnAllWithoutZero) {
  const double all = layers * (orthogonalize(1024, 1536) + orthogonalize(1024, 1024)) +
                     layers * 4 * (orthogonalize(1024, 1024) + orthogonalize(512, 1024));
  for (const double each : flops(plan(muon(2, 0)))) EXPECT_NEAR(each, all, 1);
}

TEST_F(MuonTest, DealsExpertsOutOverTheirOwnReplicas) {
  double sum = 0;
  for (const double each : flops(plan(muon(2, 1)))) sum += each;
  const double of_attention = layers * (orthogonalize(1024, 1536) + orthogonalize(1024, 1024));
  EXPECT_NEAR(
      sum, layers * 8 * (orthogonalize(1024, 1024) + orthogonalize(512, 1024)) + of_attention, 1);
}

TEST_F(MuonTest, KeepsOneMomentOfMatrices) {
  const MoeModel model = all_chosen(layers);
  const auto optimizer = [&](const Spec& o) {
    Bytes sum;
    for (const MemoryPeak& gpu : memory(model, o).peaks) sum += gpu.use.of(MemoryPart::optimizer);
    return static_cast<double>(sum.value);
  };
  Spec adam = muon(8, 1);
  adam.spec.optimizer = OptimizerKind::adam;
  adam.state.optimizer = 12;
  // What Adam updates is divided by 8, rounded up: a parameter of 12 bytes on each GPU at most.
  const double matrices = layers * (attention + 8 * expert);
  EXPECT_NEAR(optimizer(adam) - optimizer(muon(8, 1)), 4.0 * matrices, 2 * 8 * 12);
}

TEST_F(MuonTest, UpdatesExpertsWhereTheirStateIs) {
  double all = 0;
  for (const double each : flops(plan(muon(8, 1)))) all += each;
  for (const char* policy : {"hybridep-exact", "moonep"}) {
    double sum = 0;
    for (const double each : flops(plan(muon(8, 1), policy))) sum += each;
    EXPECT_NEAR(sum, all, 1) << policy;
  }
}

TEST_F(MuonTest, NeedsWholeExperts) {
  EXPECT_THROW(plan(muon(8, 1), "fsep-flexmoe"), Error);
  EXPECT_NO_THROW(plan(muon(8, 1), "eplb"));
}

}  // namespace
}  // namespace moesim
