// SPDX-License-Identifier: Apache-2.0
// Two waves of a fused layer on two GPUs, of which the second has the expert, by hand.
#include "sim/report/fused_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/plan/fixtures.h"

namespace moesim::test {
namespace {

constexpr int second_wave = 256;  // the part of its ops

class FusedMemoryTest : public testing::Test {
 protected:
  /// Dispatches of 4 and 2 rows of 10 B, results of 20 B; one row of the first wave is GPU 1's own.
  FusedMemoryTest() {
    exchange_op("dispatch-alltoall", Stage::dispatch, 0, {{{0, 1, 3}}, {{1, 1, 1}}}, 10, {}, 0, 2);
    exchange_op("dispatch-alltoall", Stage::dispatch, 1, {{{0, 1, 2}}}, 10, {}, 2, 4);
    product("fc1", 0, 4, 4, 5, {0}, 2, 5);
    product("fc2", 0, 4, 5, 2, {}, 5, 6);
    product("fc1", 1, 2, 4, 5, {1}, 6, 8);
    product("fc2", 1, 2, 5, 2, {}, 8, 9);
    exchange_op("combine-alltoall", Stage::combine, 0, {{{1, 0, 3}}, {{1, 1, 1}}}, 20, {3}, 6, 7);
    exchange_op("combine-alltoall", Stage::combine, 1, {{{1, 0, 2}}}, 20, {5}, 9, 10);
    add(kernel("unpermute", 1, {7}), 0, 10, 12);
  }

  void add_backward() {
    const std::vector<std::array<std::uint32_t, 3>> there = {{{0, 1, 3}}, {{1, 1, 1}}};
    const std::vector<std::array<std::uint32_t, 3>> back = {{{1, 0, 3}}, {{1, 1, 1}}};
    exchange_op("dispatch-alltoall-grad", Stage::dispatch, 0, there, 10, {8}, 12, 13);
    product("fc2-dgrad", 0, 4, 2, 5, {9}, 13, 14);
    product("fc2-wgrad", 0, 4, 2, 5, {}, 14, 15);
    product("fc1-dgrad", 0, 4, 5, 4, {}, 15, 16);
    product("fc1-wgrad", 0, 4, 5, 4, {}, 16, 17);
    exchange_op("combine-alltoall-grad", Stage::combine, 0, back, 20, {13}, 17, 18);
    for (std::size_t i = 9; i < plan_.ops.size(); ++i) plan_.ops[i].key.pass = Pass::backward;
  }

  void add(Op op, int wave, double start, double end) {
    op.key.layer = 5;
    op.key.part = wave * second_wave;
    timeline_.ops.add_row(std::vector(op.group.size(), Interval{Seconds(start), Seconds(end)}));
    plan_.add(std::move(op));
  }
  void exchange_op(const std::string& name, Stage stage, int wave,
                   const std::vector<std::array<std::uint32_t, 3>>& rows, int row,
                   std::initializer_list<int> after, double start, double end) {
    Op op = exchange(name, {0, 1}, matrix(2, row, rows), after);
    op.key.kind = OpKind::token_exchange;
    op.key.stage = stage;
    add(std::move(op), wave, start, end);
  }
  void product(const std::string& name, int wave, std::int64_t m, int n, int k,
               std::initializer_list<int> after, double start, double end) {
    GroupedGemm gemm{{m}, n, k, DataType::bf16};
    gemm.wave = Wave{{6}, 2, 2, m / 2, 3, DataType::bf16, wave == 0};
    Op op = kernel(name, 1, after, gemm);
    op.key.stage = Stage::experts;
    add(std::move(op), wave, start, end);
  }
  std::vector<FusedMemory> memory(int gpu = 1) const {
    return fused_memory(plan_, timeline_, std::array{GpuId(gpu)});
  }

  Plan plan_{"p", 2, {}};
  Timeline timeline_;
};

using Moments = std::vector<std::pair<Seconds, FusedBytes>>;

TEST_F(FusedMemoryTest, HoldsRowsUntilTheyAreRead) {
  ASSERT_EQ(memory().size(), 1u);
  const FusedMemory held = memory()[0];
  EXPECT_EQ(held.layer, 5);
  const auto bytes = [](int received, int inner, int results) {
    return FusedBytes{Bytes(received), Bytes(inner), Bytes(results)};
  };
  // fc2's input: 4 and 2 rows of 2 elements of 2 B.
  EXPECT_EQ(held.moments, (Moments{{Seconds(0), bytes(40, 0, 0)},
                                   {Seconds(2), bytes(60, 16, 0)},
                                   {Seconds(5), bytes(20, 16, 0)},
                                   {Seconds(6), bytes(20, 8, 20)},
                                   {Seconds(8), bytes(0, 8, 20)},
                                   {Seconds(9), bytes(0, 0, 20)},
                                   {Seconds(12), bytes(0, 0, 0)}}));
  EXPECT_EQ(held.peak, bytes(60, 16, 0));
  ASSERT_EQ(held.waves.size(), 2u);
  EXPECT_EQ(held.waves[0].rows, 4);
  EXPECT_EQ(held.waves[1].rows, 2);
  EXPECT_EQ(held.waves[0].begins, Seconds(2));
  EXPECT_EQ(held.waves[0].ends, Seconds(6));
  EXPECT_EQ(held.waves[0].left, Seconds(7));
  EXPECT_EQ(held.waves[1].sent, Seconds(2));
  EXPECT_EQ(held.waves[1].most, bytes(60, 16, 0));
  // GPU 0 has no experts: results of its own tokens.
  EXPECT_EQ(memory(0)[0].peak, bytes(0, 0, 100));
  EXPECT_EQ(fullest_fused_memory(plan_, timeline_)[0].gpu, GpuId(0));
}

TEST_F(FusedMemoryTest, KeepsForABackwardPassWhatItNeeds) {
  add_backward();
  const auto held = memory();
  ASSERT_EQ(held.size(), 2u);
  // All six rows, their fc1's output of 4 elements and fc2's input of 2; the own result.
  EXPECT_EQ(held[0].peak, (FusedBytes{Bytes(60), Bytes(72), Bytes(20)}));
  EXPECT_EQ(held[0].moments.back().first, Seconds(18));
  // Gradients of rows until fc2's weights have had them; that of fc1's output, 4 x 4 x 2 B.
  EXPECT_EQ(held[1].peak, (FusedBytes{Bytes(40), Bytes(32), Bytes(0)}));
  EXPECT_EQ(held[1].waves[0].rows, 4);
  EXPECT_EQ(held[1].waves[0].ends, Seconds(17));
}

TEST_F(FusedMemoryTest, IsOfFusedLayersOnly) {
  // Whole tiles of products that wait for a kernel which sorts rows are no waves.
  for (Op& op : plan_.ops) {
    if (op.kernels() != nullptr) op.after.clear();
  }
  EXPECT_TRUE(memory().empty());
}

// At any moment the sum over waves of what their times say, whatever these are.
TEST_F(FusedMemoryTest, EqualsABruteForceOverTime) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    Timeline timeline;
    std::vector<Interval> times;
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      const auto start = static_cast<double>(random() % 50);
      times.push_back({Seconds(start), Seconds(start + 1 + static_cast<double>(random() % 9))});
      timeline.ops.add_row(std::vector(plan_.ops[i].group.size(), times.back()));
    }
    Seconds ends;
    for (const Interval& time : times) ends = std::max(ends, time.end);
    const auto held = fused_memory(plan_, timeline, std::array{GpuId(1)})[0];
    for (int at = 0; at < 70; ++at) {
      const Seconds now(at + 0.5);
      const auto during = [&](Seconds from, Seconds to) { return from <= now && now < to; };
      std::int64_t expected = 0;
      for (const int w : {0, 1}) {
        const Interval &there = times[w], &fc1 = times[2 + 2 * w], &fc2 = times[3 + 2 * w];
        if (during(there.start, std::max(there.end, fc1.end))) expected += w == 0 ? 40 : 20;
        if (during(fc1.start, std::max({there.start, fc1.end, fc2.end}))) {
          expected += w == 0 ? 16 : 8;
        }
      }
      if (during(times[6].start, ends)) expected += 20;
      Bytes said;
      for (const auto& [from, bytes] : held.moments) {
        if (from <= now) said = bytes.total();
      }
      EXPECT_EQ(said.value, expected) << "trial " << trial << " at " << at;
    }
  }
}

}  // namespace
}  // namespace moesim::test
