// SPDX-License-Identifier: Apache-2.0
// Programs by themselves: what they read was written before, and what is left out is missed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/fixtures.h"
#include "tests/realhw/pieces.h"
#include "tests/realhw/program_rules.h"
#include "tests/realhw/real_case.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

/// The step of the first op of a name, from a rank on that has calls in it.
RankStep& step_of(const Plan& plan, RankProgram& program, std::string_view name) {
  for (RankStep& step : program.steps) {
    if (plan[step.op].label.text() == name && !step.before.empty()) return step;
  }
  throw std::runtime_error("no step " + std::string(name));
}

TEST(Program, RulesSeeAReadBeforeItsWrite) {
  RealCase c(one_layer("megatron"));
  RankProgram program = c.ranks()[0]->program;
  RankStep& sort = step_of(c.planned->plan, program, "sort");
  const std::string op = fmt::format("op {} does not wait for", sort.op.value);
  for (RankStep& step : program.steps) step.waits.clear();
  EXPECT_THAT(broken_rules(program), Contains(HasSubstr(op)));
  sort.before.clear();
  EXPECT_THAT(broken_rules(program), Contains(HasSubstr("reads what nobody has written")));
}

/// A kernel that does not wait for an exchange cannot use what it brings, whenever it comes.
TEST(Program, RowsOfExchangesThatNobodyWaitsForAreNotThere) {
  RealCase c(one_layer("megatron"));
  Plan& plan = c.planned->plan;
  for (Op& op : plan.ops) {
    if (op.label == "sort" || op.label == "fc1") op.after.clear();
    if (op.label == "read-counts") op.after.clear();
  }
  EXPECT_THAT([&] { c.ranks(); },
              ThrowsMessage<std::runtime_error>(
                  testing::AllOf(HasSubstr("rank 0, op"), HasSubstr("'fc1' of layer 1: fc1 of "),
                                 HasSubstr("is to compute rows 0 to"))));
}

/// What only one kernel could do has no program: the op is named, and nothing is run in its place.
TEST(Program, WavesOfAFusedKernelAreRefusedByName) {
  RealCase c(one_layer("megatron"));
  for (Op& op : c.planned->plan.ops) {
    if (op.key.type() != OpType{OpKind::fc2, Role::plain, Pass::forward}) continue;
    auto gemm = std::get<GroupedGemm>(op.kernels()->each().front());
    gemm.wave = Wave{gemm.m, 16, 16, 1, 1, DataType::fp32, true};
    op.work = Kernels(Kernel(gemm));
  }
  EXPECT_THAT([&] { c.ranks(); },
              ThrowsMessage<std::runtime_error>(testing::AllOf(
                  HasSubstr("rank 0, op"), HasSubstr("'fc2' of layer 1"),
                  HasSubstr("hardware cannot execute waves of a fused kernel yet"))));
}

/// Poison shows what a program reads too early.
TEST(Program, APoisonedRowThatIsReadBeforeItIsWrittenIsFound) {
  RealCase c(one_layer("megatron"));
  RankProgram& program = c.ranks()[3]->program;
  RankStep& sort = step_of(c.planned->plan, program, "sort");
  for (RankStep& step : program.steps) step.waits.clear();
  EXPECT_THAT([&] { c.run(); }, ThrowsMessage<std::runtime_error>(testing::AllOf(
                                    HasSubstr("rank 3, op"), HasSubstr("is not finite"))));
  sort.before.clear();
  EXPECT_THAT([&] { c.run(); }, ThrowsMessage<std::runtime_error>(HasSubstr("is not finite")));
}

TEST(Program, AGemmWithoutAGroupForEverySlotIsNamed) {
  RealCase c(one_layer("megatron"));
  for (Op& op : c.planned->plan.ops) {
    if (op.label != "fc2") continue;
    std::vector<std::int64_t> m = test::gemm_on(op, 2).m;
    m.pop_back();
    test::set_rows(op, m, 2);
  }
  EXPECT_THAT(
      [&] { c.ranks(); },
      ThrowsMessage<std::runtime_error>(testing::AllOf(
          HasSubstr("rank 2, op"), HasSubstr("'fc2' of layer 1: fc2 has 3 groups for 4 slots"))));
}

TEST(Program, AttentionIsAProductOfAsManyFlop) {
  RealCase c(one_layer("megatron"));
  const FusedAttention attention{10, 100, {8, 2, 64, 32, DataType::bf16, Pass::backward}};
  for (Op& op : c.planned->plan.ops) {
    if (op.label == "gate") op.work = Kernels(attention);
  }
  for (const auto& rank : c.ranks()) {
    const RankStep& gate = step_of(c.planned->plan, rank->program, "gate");
    EXPECT_EQ(flops_of(std::get<Scratch>(gate.before[0]).kernel), flops_of(attention));
  }
  c.run();
}

TEST(Program, EveryRowOfAProductIsSearchedForWhatIsNoNumber) {
  RealCase c(one_layer("megatron"));
  std::int64_t all = 0;
  for (const auto& rank : c.ranks()) {
    for (const RankStep& step : rank->program.steps) {
      std::int64_t made = 0, searched = 0;
      for (const Call& call : step.before) {
        const auto* product = std::get_if<GroupedProduct>(&call);
        if (product == nullptr || product->kind == GroupedProduct::Kind::outer) continue;
        for (const auto& group : product->groups) made += group.m * product->n;
      }
      for (const Call& call : step.after) {
        const auto* check = std::get_if<FiniteCheck>(&call);
        if (check == nullptr) continue;
        for (const auto& range : check->ranges) searched += range.elements;
      }
      if (made > 0) {
        EXPECT_EQ(searched, made) << c.planned->plan[step.op].label.text();
      }
      all += made;
    }
  }
  EXPECT_GT(all, 0);
}

TEST(Program, RowsStayWhereTheyAreReceived) {
  RealCase c(one_layer("megatron"));
  for (const auto& rank : c.ranks()) {
    RankProgram& program = rank->program;
    const auto& sort = std::get<RowSums>(step_of(c.planned->plan, program, "sort").before[0]);
    for (const RowSums::Term& term : sort.terms) {
      EXPECT_THAT(program[term.from.buffer].name, HasSubstr("received"));
    }
    EXPECT_THAT(program[sort.to[0].buffer].name, HasSubstr("layer 1 input"));
  }
}

TEST(Program, GradientsThatComeInTheOrderOfTheirRowsCopyNothing) {
  RealCase c(one_layer("megatron"));
  for (const auto& rank : c.ranks()) {
    for (const Buffer& buffer : rank->program.buffers) {
      EXPECT_THAT(buffer.name, Not(HasSubstr("reordered")));
    }
  }
}

struct PiecesCase {
  const char* name;
  PieceOptions options;
  RowFormat matrices = RowFormat::float32;
  bool reordered = true;  // gradients come in another order than rows
};

class Pieces : public testing::TestWithParam<PiecesCase> {};

TEST_P(Pieces, AreComputedAsOne) {
  const PiecesCase& param = GetParam();
  for (const std::string policy : {"alltoall", "megatron", "hiermoe-hd2"}) {
    SCOPED_TRACE(policy);
    RealCaseOptions o = one_layer(policy);
    o.tokens_per_rank = 6;
    o.matrices = param.matrices;
    RealCase whole(o);
    const Plan plan = in_pieces(whole.planned->plan, *whole.real, param.options);
    check_plan(plan);
    const RealStep step(plan, whole.model, whole.routing);
    auto ranks = all_ranks(step, {param.matrices});
    run_locally(ranks);
    Comparison sum;
    bool reordered = false;
    for (const auto& rank : ranks) {
      sum += compare(step, rank->program, rank->device);
      EXPECT_THAT(broken_rules(rank->program), IsEmpty());
      for (const Buffer& buffer : rank->program.buffers) {
        reordered = reordered || buffer.name.ends_with("h, reordered");
      }
    }
    EXPECT_EQ(sum.wrong(), 0);
    EXPECT_GT(sum.outputs, 0);
    EXPECT_GT(sum.weight_gradients, 0);
    // Elsewhere one op may wait for all pieces of one pass and gather them at once.
    if (policy == "alltoall") {
      EXPECT_EQ(reordered, param.reordered);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Orders, Pieces,
    testing::Values(PiecesCase{"alike", {}, RowFormat::float32, false},
                    PiecesCase{"turned", {{2, 1, 0}}},
                    PiecesCase{"turned_bfloat16", {{2, 1, 0}}, RowFormat::bfloat16},
                    PiecesCase{"first_in_place", {{0, 2, 1}}},
                    // Some of what a product reads is in place, some was moved.
                    PiecesCase{"gathered_in_pieces", {{0, 2, 1}, false}}),
    [](const auto& pieces) { return std::string(pieces.param.name); });

}  // namespace
}  // namespace moesim
