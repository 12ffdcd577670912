// SPDX-License-Identifier: Apache-2.0
// Every rule of a plan by itself: the least value that it takes, and the message on the next one.
#include "sim/plan/check.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

std::string check_of(const Plan& plan) {
  return error_of([&] { check_plan(plan); });
}

std::string check_of(const Kernel& work) {
  return check_of(Plan{"p", 1, {kernel("k", 0, {}, work)}});
}

std::string of_op(const std::string& what) { return "error: op 0 'k'" + what + "\n"; }

TEST(CheckOp, NumbersOfItsPlaceAreZeroOrMore) {
  for (int OpKey::*const field : {&OpKey::microbatch, &OpKey::chunk, &OpKey::part}) {
    Plan plan{"p", 1, {kernel("k", 0)}};
    plan.ops[0].key.*field = 0;
    EXPECT_EQ(check_of(plan), "");
    plan.ops[0].key.*field = -1;
    EXPECT_EQ(check_of(plan), of_op(": a microbatch, chunk or part below 0"));
  }
  Plan plan{"p", 1, {kernel("k", 0)}};
  plan.ops[0].key.layer = -1;
  EXPECT_EQ(check_of(plan), "");
  plan.ops[0].key.layer = -2;
  EXPECT_EQ(check_of(plan), of_op(": there is no layer -2"));
}

TEST(CheckOp, GpusAndWaitsOfItAreThoseOfThePlan) {
  EXPECT_EQ(check_of(Plan{"p", 2, {kernel("k", 1)}}), "");
  EXPECT_EQ(check_of(Plan{"p", 2, {kernel("k", 2)}}),
            of_op(": GPU 2 is not one of the plan's 0-1"));
  EXPECT_EQ(check_of(Plan{"p", 2, {kernel("k", -1)}}),
            of_op(": GPU -1 is not one of the plan's 0-1"));
  EXPECT_EQ(check_of(Plan{"p", 2, {kernels("k", {3, 4})}}),
            of_op(": GPU 3 is not one of the plan's 0-1"));
  EXPECT_EQ(check_of(Plan{"p", 1, {kernel("k", 0, {-1})}}),
            of_op(" waits for op -1, but the plan has 1 ops"));
  EXPECT_EQ(check_of(Plan{"p", -1, {}}), "error: a plan needs a GPU or more, this one has -1\n");
  EXPECT_EQ(check_of(Plan{"p", 1, {}}), "");
}

TEST(CheckOp, OpsOfAGroupThatPassedBeforeAreCheckedTheSame) {
  Plan plan{
      "p", 2, {exchange("x", {0, 1}, ByteMatrix::from_dense(2, std::vector<std::int64_t>(4)))}};
  Op second = exchange("k", {0, 1}, ByteMatrix::from_dense(3, std::vector<std::int64_t>(9)));
  second.group = plan.ops[0].group;
  plan.add(std::move(second));
  EXPECT_EQ(check_of(plan), "error: op 1 'k': a traffic matrix of 3 rows for 2 GPUs\n");
}

TEST(CheckOp, SizesOfAKernelMakeSense) {
  const AttentionHeads least{2, 2, 1, 1};
  AttentionHeads no_keys = least, crowded = least, flat_keys = least, flat_values = least;
  no_keys.kv_heads = 0;
  crowded.heads = 1;
  flat_keys.qk_width = 0;
  flat_values.v_width = -1;
  AttentionHeads only_scores = least;
  only_scores.v_width = 0;
  AttentionHeads latent = least, wide_values = least, backward = least;
  latent.latent = wide_values.latent = true;
  latent.kv_heads = wide_values.kv_heads = 1;
  latent.qk_width = wide_values.v_width = 2;
  backward.pass = Pass::backward;
  const std::string apart = ": latent keys have one head and values that are a part of them";
  const std::string negative = ": attention of fewer than 0 queries or keys";
  const std::vector<std::pair<Kernel, std::string>> cases = {
      {GroupedGemm{{0, 1}, 1, 1, DataType::bf16}, ""},
      {GroupedGemm{{}, 1, 1, DataType::bf16}, ""},
      {GroupedGemm{{0, -1}, 1, 1, DataType::bf16}, ": a group of the GEMM has fewer than 0 rows"},
      {GroupedGemm{{1}, 0, 1, DataType::bf16}, ": a GEMM needs n and k above 0, not 0 and 1"},
      {GroupedGemm{{1}, 1, 0, DataType::bf16}, ": a GEMM needs n and k above 0, not 1 and 0"},
      {MemoryBound{Bytes(0), Bytes(0)}, ""},
      {MemoryBound{Bytes(-1), Bytes(0)}, ": bytes below 0"},
      {MemoryBound{Bytes(0), Bytes(-1)}, ": bytes below 0"},
      {HostWork{0}, ""},
      {HostWork{-1}, ": a wait of less than 0 ns"},
      {FusedAttention{0, 0, least}, ""},
      {FusedAttention{-1, 0, least}, negative},
      {FusedAttention{0, -1, least}, negative},
      {FusedAttention{1, 1, latent, 9}, ""},
      {FusedAttention{1, 1, only_scores}, ""},
      {FusedAttention{1, 1, least, -1}, negative},
      {FusedAttention{1, 1, wide_values, 9}, apart},
      {FusedAttention{1, 1, backward, 9},
       ": the backward pass of attention has no keys in a cache"},
      {FusedAttention{1, 1, no_keys}, ": 2 heads of queries cannot share 0 of keys"},
      {FusedAttention{1, 1, crowded}, ": 1 heads of queries cannot share 2 of keys"},
      {FusedAttention{1, 1, flat_keys},
       ": attention needs keys wider than 0 and values not below, not 0 and 1"},
      {FusedAttention{1, 1, flat_values},
       ": attention needs keys wider than 0 and values not below, not 1 and -1"}};
  for (const auto& [work, what] : cases) {
    EXPECT_EQ(check_of(work), what.empty() ? "" : of_op(what));
  }
}

TEST(CheckOp, KernelsOfItsGpusDifferInSizesAlone) {
  const auto both = [](Kernel a, Kernel b) {
    return check_of(
        Plan{"p", 2, {kernels("k", {0, 1}, {}, Kernels(std::vector{std::move(a), std::move(b)}))}});
  };
  const GroupedGemm gemm{{1}, 2, 3, DataType::bf16};
  GroupedGemm n = gemm, k = gemm, type = gemm;
  n.n = 3;
  k.k = 2;
  type.type = DataType::fp8;
  for (const GroupedGemm& other : {n, k, type}) {
    EXPECT_EQ(both(gemm, other), of_op(": its kernels differ in more than their sizes"));
  }
  EXPECT_EQ(both(gemm, MemoryBound{}), of_op(": its kernels differ in more than their sizes"));
  EXPECT_EQ(both(MemoryBound{}, MemoryBound{Bytes(1), Bytes(2)}), "");
  EXPECT_EQ(both(HostWork{1}, HostWork{2}), "");
}

TEST(CheckOp, WrongSizesOfSeveralGpusAreOneMistake) {
  const auto rows = [](std::int64_t m) { return Kernel(GroupedGemm{{m}, 2, 3, DataType::bf16}); };
  const Kernels wrong(std::vector<Kernel>{rows(4), rows(-1), rows(-2)});
  EXPECT_EQ(check_of(Plan{"p", 3, {kernels("k", {0, 1, 2}, {}, wrong)}}),
            of_op(": a group of the GEMM has fewer than 0 rows"));
}

TEST(CheckOp, NumbersOfAnExchangeMakeSense) {
  const auto check = [](int unit, int rounds, int sms, int token) {
    Plan plan{"p", 2, {exchange("k", {0, 1}, matrix(2, unit, {}))}};
    auto& work = std::get<Exchange>(plan.ops[0].work);
    work.rounds = rounds;
    work.sms = sms;
    work.rows = {{GpuId(0), GpuId(1), TokenId(token), 1}};
    return check_of(plan);
  };
  EXPECT_EQ(check(1, 0, 0, 0), "");
  EXPECT_EQ(check(0, 0, 0, 0), of_op(": a traffic unit of 0 bytes"));
  EXPECT_EQ(check(1, -1, 0, 0), of_op(": -1 rounds"));
  EXPECT_EQ(check(1, 0, -1, 0), of_op(": it takes fewer than 0 multiprocessors"));
  EXPECT_EQ(check(1, 0, 0, -1), of_op(": a row of token -1"));
}

TEST(CheckOp, RowsGoBetweenItsGpus) {
  const auto check = [](int from, int to) {
    Plan plan{"p", 4, {kernel("a", 2), exchange("x", {1, 3}, matrix(2, 1, {}))}};
    std::get<Exchange>(plan.ops[1].work).rows = {{GpuId(from), GpuId(to), TokenId(7), 1}};
    return check_of(plan);
  };
  EXPECT_EQ(check(1, 3), "");
  EXPECT_EQ(check(3, 3), "");
  const auto foreign = [](int from, int to, int who) {
    return "error: op 1 'x': the row of token 7 goes from GPU " + std::to_string(from) + " to " +
           std::to_string(to) + ", but GPU " + std::to_string(who) + " takes no part\n";
  };
  EXPECT_EQ(check(2, 3), foreign(2, 3, 2));
  EXPECT_EQ(check(1, 2), foreign(1, 2, 2));
  EXPECT_EQ(check(2, 0), foreign(2, 0, 2));
  EXPECT_EQ(check(-1, 3), foreign(-1, 3, -1));
  EXPECT_EQ(check(1, 4), foreign(1, 4, 4));
}

TEST(CheckOp, ExchangesThatShareAMatrixTooLargeAreAllNamed) {
  ByteMatrix large(Bytes(std::int64_t{1} << 40));
  large.add_row(std::vector<ByteMatrix::Entry>{{GpuId(0), 8000}, {GpuId(1), 193}});
  large.add_row({});
  const std::string what = ": an exchange of 9.01e+15 bytes, more than 9.01e+15\n";
  EXPECT_EQ(check_of(Plan{"p", 2, {exchange("x", {0, 1}, large), exchange("y", {0, 1}, large)}}),
            "error: op 0 'x'" + what + "error: op 1 'y'" + what);
}

TEST(CheckOp, MistakesComeByOpsAndACycleLast) {
  Plan plan{"p", 3, {kernel("a", 0, {2}), kernel("b", 1, {0}), kernel("c", 0)}};
  plan.ops[2].key.layer = -5;
  EXPECT_EQ(check_of(plan),
            "error: op 1 'b' on GPU 1 waits for the foreign op 0 'a' on GPU 0: they share no GPU\n"
            "error: op 2 'c': there is no layer -5\n"
            "error: op 0 'a' waits for itself: it waits for op 2 'c', which waits for op 0\n");
}

TEST(CheckOp, SixOpsOfACycleAreNamedAndNoneIsLeftOut) {
  Plan plan{"p", 1, {}};
  for (int i = 0; i < 6; ++i) plan.add(kernel("k", 0));
  plan.ops[0].after = ids<OpId>({5});
  EXPECT_EQ(check_of(plan),
            "error: op 0 'k' waits for itself: it waits for op 5 'k', which waits for op 4 'k', "
            "which waits for op 3 'k', which waits for op 2 'k', which waits for op 1 'k', which "
            "waits for op 0\n");
}

TEST(CheckGpus, OfAPlanAreThoseOfTheCluster) {
  const Plan plan{"p", 2, {}};
  EXPECT_NO_THROW(check_gpus(plan, 2));
  EXPECT_EQ(error_of([&] { check_gpus(plan, 3); }),
            "error: plan 'p' is for 2 GPUs, but the cluster has 3\n");
}

TEST(KernelsOfMembers, WavesDifferInSizesAlone) {
  const Wave wave{.rows = {8}, .tile = 4, .fill = 4, .tiles = 1, .of = 2};
  const auto alike = [&](const std::optional<Wave>& other) {
    return differ_in_sizes_alone(GroupedGemm{{4}, 2, 2, DataType::bf16, wave},
                                 GroupedGemm{{3}, 2, 2, DataType::bf16, other});
  };
  Wave other{.rows = {9}, .tile = 4, .fill = 4, .tiles = 2, .of = 3};
  EXPECT_TRUE(alike(other));
  other.tile = 8;
  EXPECT_FALSE(alike(other));
  other = wave;
  other.fill = 2;
  EXPECT_FALSE(alike(other));
  other = wave;
  other.weights = DataType::fp8;
  EXPECT_FALSE(alike(other));
  other = wave;
  other.starts = true;
  EXPECT_FALSE(alike(other));
  EXPECT_FALSE(alike(std::nullopt));
}

}  // namespace
}  // namespace moesim
