// SPDX-License-Identifier: Apache-2.0
// What a calibration's kernels compute and move.
#include "realhw/calibrate/kernel_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan/exchange_time.h"
#include "tests/realhw/calibrate/clusters.h"
#include "tests/realhw/calibrate/simulated_times.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_of_kernel_plans(const Topology& topology, const KernelSizes& sizes) {
  std::vector<std::string> names;
  for (const MicroPlan& micro : kernel_plans(topology, tiny(), sizes)) {
    EXPECT_EQ(micro.plan.gpus, topology.gpu_count());
    names.push_back(micro.name);
  }
  return names;
}

TEST(KernelPlans, GoFromOneRowToTheMostOfARanksExpertsTogether) {
  EXPECT_THAT(names_of_kernel_plans(switched_cluster(1, 4), {.rows = 64, .step = 2}),
              ElementsAre("step of 1 experts with 1 row", "step of 1 experts with 4 rows",
                          "step of 1 experts with 8 rows", "step of 1 experts with 16 rows",
                          "step of 1 experts with 32 rows", "step of 1 experts with 64 rows",
                          "step of 8 experts with 1 row", "step of 8 experts with 4 rows",
                          "step of 8 experts with 8 rows", "memory-bound kernels"));
}

TEST(KernelPlans, TakeAnExpertOfEachRankIfThereAreMoreRanksThanExperts) {
  EXPECT_THAT(names_of_kernel_plans(switched_cluster(8, 8), {.rows = 4}),
              ElementsAre("step of 1 experts with 1 row", "step of 1 experts with 4 rows",
                          "memory-bound kernels"));
}

/// The kernels of an op are the same on all its GPUs.
void expect_groups(const Op& op, const std::vector<std::int64_t>& m, std::int64_t n,
                   std::int64_t k) {
  for (std::size_t member = 0; member < op.group.size(); ++member) {
    const auto& gemm = std::get<GroupedGemm>(op.kernels()->of(member));
    EXPECT_EQ(gemm.m, m) << op.label.text();
    EXPECT_EQ(gemm.n, n) << op.label.text();
    EXPECT_EQ(gemm.k, k) << op.label.text();
  }
}

TEST(KernelPlans, LeaveTheRowsOfARankWithItsOwnExperts) {
  const Topology topology = switched_cluster(2, 2);
  const auto plans = kernel_plans(topology, tiny(), {.rows = 32, .step = 2});
  const auto expect_step = [&](const std::string& name, std::vector<std::int64_t> m) {
    const auto micro = std::ranges::find(plans, name, &MicroPlan::name);
    ASSERT_NE(micro, plans.end()) << name;
    int products = 0;
    for (const Op& op : micro->plan.ops) {
      if (op.key.kind == OpKind::fc1 && op.key.role == Role::plain &&
          op.key.pass == Pass::forward) {
        expect_groups(op, m, 256, 128);
        EXPECT_EQ(op.group.size(), 4u);
        ++products;
      }
      EXPECT_NE(op.key.kind, OpKind::attention_projections) << "only experts";
      if (op.key.kind == OpKind::token_exchange) {
        EXPECT_EQ(op.exchange()->traffic.off_diagonal(), Bytes(0)) << op.label.text();
      }
      if (op.label == "dispatch-counts") {
        const auto experts = static_cast<std::int64_t>(4 * m.size());
        EXPECT_EQ(op.exchange()->traffic.at(GpuId(0), GpuId(1)), Bytes(8 * experts))
            << "a count of each expert of the step";
      }
    }
    EXPECT_EQ(products, 1);
    EXPECT_EQ(micro->layers.size(), 1u);
  };
  expect_step("step of 1 experts with 32 rows", {32});
  expect_step("step of 8 experts with 4 rows", std::vector<std::int64_t>(8, 4));
}

TEST(KernelPlans, ReadHalfOfTheBytesOfAMemoryBoundKernelAndWriteTheOther) {
  const Topology topology = switched_cluster(1, 2);
  const MicroPlan memory = kernel_plans(topology, tiny(), {.rows = 1, .most = Bytes(65536)}).back();
  EXPECT_EQ(memory.name, "memory-bound kernels");
  EXPECT_EQ(memory.plan.name, memory.name);
  std::vector<std::int64_t> read;
  for (std::size_t i = 0; i < memory.plan.ops.size(); i += 2) {
    EXPECT_EQ(memory.plan.ops[i].key.kind, OpKind::settle);
    if (i > 0) {
      EXPECT_EQ(memory.plan.ops[i].after, std::vector<OpId>{OpId(i - 1)});
    }
    const Op& op = memory.plan.ops[i + 1];
    EXPECT_TRUE(is_probe(op, Probe::sized));
    EXPECT_EQ(op.after, std::vector<OpId>{OpId(i)});
    const auto& kernel = std::get<MemoryBound>(op.kernels()->of(1));
    EXPECT_EQ(kernel.read, kernel.written);
    read.push_back(kernel.read.value);
  }
  EXPECT_THAT(read, ElementsAre(2048, 8192, 32768));
}

/// Ops of a kind that follow each other, in words.
std::vector<std::string> phases_of(const MicroPlan& micro) {
  std::vector<std::pair<std::string, int>> phases;
  for (const Op& op : micro.plan.ops) {
    const std::string label = op.label.text();
    if (phases.empty() || phases.back().first != label) phases.emplace_back(label, 0);
    ++phases.back().second;
  }
  std::vector<std::string> words;
  for (const auto& [label, count] : phases) words.push_back(fmt::format("{} {}", count, label));
  return words;
}

TEST(OverlapPlan, RunsKernelsThenExchangesThenBothAtOnce) {
  const MicroPlan micro = overlap_plan(switched_cluster(1, 4), tiny(), {.rows = 640});
  EXPECT_THAT(phases_of(micro),
              ElementsAre("1 settle", "32 kernel alone", "1 settle", "6 exchange alone", "1 settle",
                          "32 kernel beside", "6 exchange beside"));
  EXPECT_EQ(micro.plan.name, micro.name);
  const auto& ops = micro.plan.ops;
  EXPECT_EQ(ops[1].after, std::vector<OpId>{OpId(0)});
  EXPECT_EQ(ops[33].after, std::vector<OpId>{OpId(32)}) << "exchanges begin after all kernels";
  EXPECT_EQ(ops[41].after, std::vector<OpId>{OpId(40)}) << "and these after all have met";
  for (const Op& op : ops) {
    if (op.kernels() != nullptr) expect_groups(op, std::vector<std::int64_t>(8, 10), 256, 128);
  }
}

TEST(OverlapPlan, HasARowAndAnExpertAtLeast) {
  expect_groups(overlap_plan(switched_cluster(1, 4), tiny(), {.rows = 16}).plan.ops[1],
                std::vector<std::int64_t>(8, 1), 256, 128);
  expect_groups(overlap_plan(switched_cluster(8, 8), tiny(), {.rows = 16}).plan.ops[1], {2}, 256,
                128);
}

TEST(OverlapPlan, ExchangesAsLongAsItIsToldTo) {
  const Topology topology = switched_cluster(1, 4);
  const auto traffic = [&](double seconds) {
    const MicroPlan micro = overlap_plan(topology, tiny(), {.exchange = Seconds(seconds)});
    const ByteMatrix& matrix = micro.plan.ops.back().exchange()->traffic;
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        EXPECT_EQ(matrix.at(GpuId(from), GpuId(to)),
                  from == to ? Bytes(0) : matrix.at(GpuId(0), GpuId(1)));
      }
    }
    return matrix;
  };
  EXPECT_NEAR(price(topology, traffic(1e-3))->alone.transfer.value, 1e-3, 1e-6);
  EXPECT_EQ(traffic(1e-12).at(GpuId(0), GpuId(1)), Bytes(1024)) << "at least";
  EXPECT_EQ(traffic(1).at(GpuId(0), GpuId(1)), Bytes(64 << 20)) << "at most";
}

}  // namespace
}  // namespace moesim
