// SPDX-License-Identifier: Apache-2.0
// Order of ops, and every structural rule with its message.
#include "sim/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sim/plan/label.h"
#include "sim/plan/waits.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

Plan plan_of(int gpus, std::vector<Op> ops) { return {"test", gpus, std::move(ops)}; }

std::string mistakes_of(const Plan& plan) {
  return error_of([&] { check_plan(plan); });
}

TEST(TypeLabel, IsTheNameOfTheType) {
  for (int kind = 0; kind < op_kind_count; ++kind) {
    for (int role = 0; role < role_count; ++role) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const OpType type{static_cast<OpKind>(kind), static_cast<Role>(role), pass};
        EXPECT_EQ(type_label(type), name_of(type));
      }
    }
  }
}

TEST(Plan, NamesItsStreamsStagesAndPasses) {
  EXPECT_STREQ(name_of(Stream::compute), "compute");
  EXPECT_STREQ(name_of(Stream::ep), "ep");
  EXPECT_STREQ(name_of(Stream::param), "param");
  EXPECT_STREQ(name_of(Stream::copy), "copy");
  EXPECT_STREQ(name_of(Stage::dispatch), "dispatch");
  EXPECT_STREQ(name_of(Stage::experts), "experts");
  EXPECT_STREQ(name_of(Stage::combine), "combine");
  EXPECT_STREQ(name_of(Stage::other), "other");
  EXPECT_STREQ(name_of(Pass::forward), "forward");
  EXPECT_STREQ(name_of(Pass::backward), "backward");
}

TEST(Plan, KnowsWhatItsStreamsCarry) {
  for (int i = 0; i < stream_count; ++i) {
    const auto stream = static_cast<Stream>(i);
    EXPECT_EQ(runs_kernels(stream),
              stream == Stream::compute || stream == Stream::copy || stream == Stream::stash);
    EXPECT_EQ(carries_tokens(stream), stream == Stream::ep || stream == Stream::ep_2);
    EXPECT_EQ(carries_parameters(stream), stream == Stream::param || stream == Stream::dp);
  }
}

TEST(Plan, AddReturnsTheIndex) {
  Plan plan;
  EXPECT_EQ(plan.add(kernel("a", 0)), OpId(0));
  EXPECT_EQ(plan.add(kernel("b", 0)), OpId(1));
  EXPECT_EQ(plan[OpId(1)].label, "b");
}

TEST(Groups, MeetInTheMembersOfBothWhateverTheirSizes) {
  std::mt19937 random(9);
  const auto drawn = [&](int count) {
    std::set<GpuId> gpus;
    for (int i = 0; i < count; ++i) gpus.insert(GpuId(static_cast<std::int64_t>(random() % 200)));
    return Group(std::vector<GpuId>(gpus.begin(), gpus.end()));
  };
  // Every GPU of a range, or every second, and so on: hosts, stages and rails.
  const auto spaced = [&](int count) {
    const auto first = static_cast<std::int64_t>(random() % 100), step = 1 + first % 3;
    std::vector<GpuId> gpus;
    for (int i = 0; i < count; ++i) gpus.emplace_back(first + i * step);
    return Group(std::move(gpus));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const auto make = [&](int count) { return random() % 2 == 0 ? spaced(count) : drawn(count); };
    const Group a = make(static_cast<int>(random() % 120)),
                b = make(static_cast<int>(random() % 8));
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      std::vector<std::pair<std::size_t, std::size_t>> expected, common;
      for (std::size_t i = 0; i < one.size(); ++i) {
        const auto at = std::ranges::find(other, one[i]);
        const auto place = static_cast<std::size_t>(at - other.begin());
        EXPECT_EQ(other.member(one[i]), place);
        EXPECT_EQ(other.contains(one[i]), place < other.size());
        if (place < other.size()) expected.emplace_back(i, place);
      }
      for_each_common(one, other, [&](std::size_t i, std::size_t j) { common.emplace_back(i, j); });
      EXPECT_EQ(common, expected);
      EXPECT_EQ(one.meets(other), !expected.empty());
    }
  }
}

TEST(Dependencies, AreWaitsAndThePredecessorsOnEveryStreamOfTheOp) {
  const Plan plan = plan_of(2, {kernel("a", 0), kernel("b", 1), kernel("c", 0),
                                exchange("x", {0, 1}, matrix(2, 1, {}), {1, 2}),
                                exchange("y", {0, 1}, matrix(2, 1, {})), kernel("d", 1, {4, 1})});
  const std::vector<std::vector<OpId>> expected = {
      {}, {}, ids<OpId>({0}), ids<OpId>({1, 2}), ids<OpId>({3}), ids<OpId>({1, 4})};
  EXPECT_EQ(dependencies(plan), expected);
}

TEST(Dependencies, GrowLinearlyWithTheGpus) {
  const int gpus = 4096, layers = 8;
  ByteMatrix none;
  for (int gpu = 0; gpu < gpus; ++gpu) none.add_row({});
  Plan plan = plan_of(gpus, {});
  for (int layer = 0; layer < layers; ++layer) {
    Op all_to_all = exchange("x", {}, none);
    all_to_all.group = Group::first(gpus);
    if (layer > 0) {
      for (int gpu = 0; gpu < gpus; ++gpu) {
        all_to_all.after.push_back(OpId(static_cast<int>(plan.ops.size()) - gpus + gpu));
      }
    }
    const OpId x = plan.add(std::move(all_to_all));
    for (int gpu = 0; gpu < gpus; ++gpu) plan.add(kernel("k", gpu, {x.value}));
  }
  const auto before = dependencies(plan);
  EXPECT_EQ(before[0].size(), 0u);
  EXPECT_EQ(before[1], ids<OpId>({0}));
  EXPECT_EQ(before[gpus + 1].size(), gpus + 1u);
  EXPECT_EQ(before[gpus + 2], ids<OpId>({1, gpus + 1}));
  EXPECT_EQ(topological_order(plan).size(), plan.ops.size());
  check_plan(plan);
}

TEST(TopologicalOrder, IsThatOfThePlanWhereEveryWaitLooksBack) {
  const Plan plan = plan_of(2, {kernel("a", 0), kernel("b", 1, {}), kernel("c", 0, {0}),
                                exchange("x", {0, 1}, matrix(2, 1, {}), {1, 2})});
  EXPECT_EQ(topological_order(plan), ids<OpId>({0, 1, 2, 3}));
}

TEST(TopologicalOrder, TakesTheLowestReadyOpFirst) {
  Plan plan = plan_of(2, {kernel("a", 0, {2}), kernel("b", 1), kernel("c", 0), kernel("d", 1)});
  plan.ops[2].stream = Stream::copy;
  EXPECT_EQ(topological_order(plan), ids<OpId>({1, 2, 0, 3}));
}

TEST(TopologicalOrder, NamesTheCycle) {
  const Plan plan = plan_of(1, {kernel("a", 0), kernel("b", 0, {2}), kernel("c", 0)});
  EXPECT_EQ(error_of([&] { topological_order(plan); }),
            "error: op 1 'b' waits for itself: it waits for op 2 'c', which waits for op 1\n");
}

TEST(CheckPlan, AcceptsWhatTheRulesAllow) {
  Plan plan = plan_of(4, {kernel("a", 0), exchange("x", {0, 2}, matrix(2, 8, {{0, 1, 1}}), {0}),
                          exchange("y", {2, 3}, matrix(2, 8, {{1, 1, 5}}), {1}),
                          kernel("b", 2, {1, 2}), kernel("c", 1)});
  plan.ops[2].stream = Stream::param;
  plan.ops[4].stream = Stream::copy;
  EXPECT_EQ(mistakes_of(plan), "");
}

TEST(CheckPlan, NeedsGpus) {
  EXPECT_EQ(mistakes_of(plan_of(0, {})), "error: a plan needs a GPU or more, this one has 0\n");
}

TEST(CheckPlan, KeepsGpusAndOpsInRange) {
  EXPECT_EQ(mistakes_of(plan_of(
                2, {kernel("a", 2), kernel("b", 0, {7}), exchange("x", {0, 5}, matrix(2, 1, {}))})),
            "error: op 0 'a': GPU 2 is not one of the plan's 0-1\n"
            "error: op 1 'b' waits for op 7, but the plan has 3 ops\n"
            "error: op 2 'x': GPU 5 is not one of the plan's 0-1\n");
}

TEST(CheckPlan, KeepsWaitsBelowTheNumberOfOps) {
  EXPECT_EQ(mistakes_of(plan_of(1, {kernel("a", 0), kernel("b", 0, {2})})),
            "error: op 1 'b' waits for op 2, but the plan has 2 ops\n");
}

TEST(CheckPlan, KeepsKernelsAndExchangesOnTheirStreams) {
  Plan plan = plan_of(1, {kernel("a", 0), exchange("x", {0}, matrix(1, 1, {}))});
  plan.ops[0].stream = Stream::ep;
  plan.ops[1].stream = Stream::copy;
  EXPECT_EQ(mistakes_of(plan),
            "error: op 0 'a': a kernel runs on stream compute or copy, not ep\n"
            "error: op 1 'x': an exchange runs on no stream of kernels, as copy is\n");
}

TEST(CheckPlan, RejectsForeignWaits) {
  EXPECT_EQ(
      mistakes_of(plan_of(
          4, {kernel("a", 0), kernel("b", 1, {0}), exchange("x", {2, 3}, matrix(2, 1, {}), {0}),
              exchange("y", {0, 1}, matrix(2, 1, {}), {2}), kernel("c", 0, {2})})),
      "error: op 1 'b' on GPU 1 waits for the foreign op 0 'a' on GPU 0: they share no GPU\n"
      "error: op 2 'x' on GPUs 2,3 waits for the foreign op 0 'a' on GPU 0: "
      "they share no GPU\n"
      "error: op 3 'y' on GPUs 0,1 waits for the foreign op 2 'x' on GPUs 2,3: "
      "they share no GPU\n"
      "error: op 4 'c' on GPU 0 waits for the foreign op 2 'x' on GPUs 2,3: "
      "they share no GPU\n");
}

TEST(CheckPlan, RejectsCycles) {
  EXPECT_EQ(mistakes_of(plan_of(1, {kernel("a", 0, {0})})), "error: op 0 'a' waits for itself\n");
}

TEST(CheckPlan, ShortensLongCycles) {
  Plan plan = plan_of(1, {});
  for (int i = 0; i < 9; ++i) plan.add(kernel("k", 0));
  plan.ops[0].after = ids<OpId>({8});
  EXPECT_EQ(mistakes_of(plan),
            "error: op 0 'k' waits for itself: it waits for op 8 'k', which waits for op 7 'k', "
            "which waits for op 6 'k', which waits for op 5 'k', which waits for op 4 'k', which "
            "waits for 3 more, which wait for op 0\n");
}

TEST(CheckPlan, KeepsTrafficAndRowsBetweenParticipants) {
  Plan plan = plan_of(
      3, {exchange("x", {0, 1}, matrix(2, 1, {{0, 2, 1}})),
          exchange("y", {0, 2}, matrix(2, 1, {{1, 1, 1}})), exchange("z", {0, 1}, matrix(3, 1, {})),
          exchange("r", {0, 1}, matrix(2, 1, {}))});
  std::get<Exchange>(plan.ops[3].work).rows = {{GpuId(0), GpuId(1), TokenId(4), 1},
                                               {GpuId(0), GpuId(2), TokenId(5), 1}};
  EXPECT_EQ(mistakes_of(plan),
            "error: op 0 'x': an entry of its traffic in column 2 of 2\n"
            "error: op 2 'z': a traffic matrix of 3 rows for 2 GPUs\n"
            "error: op 3 'r': the row of token 5 goes from GPU 0 to 2, but GPU 2 takes no part\n");
}

TEST(CheckPlan, NamesEveryOpThatHasTheSameWrongTraffic) {
  const ByteMatrix shared = matrix(2, 1, {{0, 2, 1}});
  EXPECT_EQ(mistakes_of(plan_of(2, {exchange("x", {0, 1}, shared), exchange("y", {0, 1}, shared)})),
            "error: op 0 'x': an entry of its traffic in column 2 of 2\n"
            "error: op 1 'y': an entry of its traffic in column 2 of 2\n");
}

TEST(CheckPlan, NeedsParticipantsThatAscend) {
  EXPECT_EQ(mistakes_of(plan_of(
                2, {exchange("x", {}, matrix(2, 1, {})), exchange("y", {1, 0}, matrix(2, 1, {})),
                    exchange("z", {1, 1}, matrix(2, 1, {}))})),
            "error: op 0 'x': an op needs a GPU or more\n"
            "error: op 1 'y': its GPUs do not ascend\n"
            "error: op 2 'z': its GPUs do not ascend\n");
}

TEST(CheckPlan, RejectsRowsAndShapesWithoutMeaning) {
  Plan plan = plan_of(1, {kernel("a", 0, {}, GroupedGemm{{1, -1}, 0, 4, DataType::bf16}),
                          kernel("b", 0, {}, MemoryBound{Bytes(-1), Bytes(0)}),
                          exchange("x", {0}, matrix(1, 0, {}))});
  plan.ops[1].key.layer = -2;
  std::get<Exchange>(plan.ops[2].work).sms = -1;
  std::get<Exchange>(plan.ops[2].work).rows = {{GpuId(0), GpuId(0), TokenId(-1), 1}};
  EXPECT_EQ(mistakes_of(plan),
            "error: op 0 'a': a GEMM needs n and k above 0, not 0 and 4\n"
            "error: op 0 'a': a group of the GEMM has fewer than 0 rows\n"
            "error: op 1 'b': there is no layer -2\n"
            "error: op 1 'b': bytes below 0\n"
            "error: op 2 'x': it takes fewer than 0 multiprocessors\n"
            "error: op 2 'x': a traffic unit of 0 bytes\n"
            "error: op 2 'x': a row of token -1\n");
}

TEST(CheckPlan, RejectsWaitsAndBytesBelowZero) {
  EXPECT_EQ(
      mistakes_of(plan_of(1, {kernel("a", 0, {}, HostWork{0}), kernel("b", 0, {}, HostWork{-1}),
                              kernel("c", 0, {}, MemoryBound{Bytes(0), Bytes(0)}),
                              kernel("d", 0, {}, MemoryBound{Bytes(0), Bytes(-1)})})),
      "error: op 1 'b': a wait of less than 0 ns\n"
      "error: op 3 'd': bytes below 0\n");
}

TEST(CheckPlan, RejectsAttentionWithoutMeaning) {
  const AttentionHeads sound{8, 2, 64, 64};
  AttentionHeads crowded = sound, flat = sound;
  crowded.kv_heads = 9;
  flat.v_width = -1;
  EXPECT_EQ(
      mistakes_of(plan_of(1, {kernel("a", 0, {}, FusedAttention{4, 2, sound}),
                              kernel("b", 0, {}, FusedAttention{-1, 2, sound}),
                              kernel("c", 0, {}, FusedAttention{4, 2, crowded}),
                              kernel("d", 0, {}, FusedAttention{4, 2, flat})})),
      "error: op 1 'b': attention of fewer than 0 queries or keys\n"
      "error: op 2 'c': 8 heads of queries cannot share 9 of keys\n"
      "error: op 3 'd': attention needs keys wider than 0 and values not below, not 64 and -1\n");
  EXPECT_EQ(mistakes_of(
                plan_of(2, {kernels("a", {0, 1}, {},
                                    Kernels(std::vector<Kernel>{FusedAttention{4, 2, sound},
                                                                FusedAttention{5, 3, sound}})),
                            kernels("b", {0, 1}, {},
                                    Kernels(std::vector<Kernel>{FusedAttention{4, 2, sound},
                                                                FusedAttention{4, 2, crowded}}))})),
            "error: op 1 'b': its kernels differ in more than their sizes\n");
}

TEST(Kernels, AreSharedByCopies) {
  const Kernels some(std::vector<Kernel>{MemoryBound{Bytes(1), Bytes(2)}, MemoryBound()});
  const Kernels copy = some;
  EXPECT_EQ(&copy.each(), &some.each());
  EXPECT_EQ(Kernels(std::vector<Kernel>(some.each())), some);
  EXPECT_NE(Kernels(), some);
}

TEST(CheckPlan, KnowsTheKernelsOfAGroup) {
  const auto gemm = [](std::int64_t m, std::int64_t n) {
    return Kernel(GroupedGemm{{m}, n, 4, DataType::bf16});
  };
  const auto each = [](std::vector<Kernel> list) { return Kernels(std::move(list)); };
  EXPECT_EQ(mistakes_of(plan_of(2, {kernels("a", {0, 1}, {}, each({gemm(1, 8), gemm(2, 8)})),
                                    kernels("b", {0, 1}, {}, each({gemm(1, 8), gemm(1, 9)})),
                                    kernels("c", {0, 1}, {}, each({gemm(1, 8), MemoryBound()})),
                                    kernels("d", {1}, {}, each({gemm(1, 8), gemm(2, 8)})),
                                    kernels("e", {}), kernels("f", {1, 0})})),
            "error: op 1 'b': its kernels differ in more than their sizes\n"
            "error: op 2 'c': its kernels differ in more than their sizes\n"
            "error: op 3 'd': 2 kernels for 1 GPUs\n"
            "error: op 4 'e': an op needs a GPU or more\n"
            "error: op 5 'f': its GPUs do not ascend\n");
}

TEST(CheckPlan, CountsWhatItDoesNotShow) {
  Plan plan = plan_of(1, {});
  for (int i = 0; i < 25; ++i) plan.add(kernel("k", 1));
  const std::string text = mistakes_of(plan);
  EXPECT_NE(text.find("op 19 'k'"), std::string::npos) << text;
  EXPECT_EQ(text.find("op 20 'k'"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("error: 5 more mistakes\n")) << text;
  plan.ops.resize(20);
  EXPECT_EQ(mistakes_of(plan).find("more mistakes"), std::string::npos);
}

}  // namespace
}  // namespace moesim
