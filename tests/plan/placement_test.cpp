// SPDX-License-Identifier: Apache-2.0
// Contiguous placements and the replicas that ranks use.
#include "sim/plan/placement.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/plan/assignment.h"
#include "sim/plan/rank_walk.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

std::vector<int> experts_on(const Placement& placement, int gpu) {
  std::vector<int> experts;
  const int first = placement.first_slot(GpuId(gpu)).value;
  for (int slot = first; slot < first + placement.slots_on(GpuId(gpu)); ++slot) {
    EXPECT_EQ(placement.gpu_of(SlotId(slot)), GpuId(gpu));
    experts.push_back(placement.expert_in(SlotId(slot)).value);
  }
  return experts;
}

TEST(ContiguousPlacement, SplitsTheExpertsEvenly) {
  const Placement placement = contiguous_placement(8, 4, 4);
  EXPECT_EQ(placement.experts(), 8);
  EXPECT_EQ(placement.gpus(), 4);
  EXPECT_EQ(placement.slots(), 8);
  EXPECT_EQ(experts_on(placement, 0), (std::vector{0, 1}));
  EXPECT_EQ(experts_on(placement, 3), (std::vector{6, 7}));
}

TEST(ContiguousPlacement, SpreadsARemainder) {
  const Placement placement = contiguous_placement(7, 3, 3);  // floor(e x 3 / 7)
  EXPECT_EQ(experts_on(placement, 0), (std::vector{0, 1, 2}));
  EXPECT_EQ(experts_on(placement, 1), (std::vector{3, 4}));
  EXPECT_EQ(experts_on(placement, 2), (std::vector{5, 6}));
}

TEST(ContiguousPlacement, RepeatsEveryExpertPerGroup) {
  const Placement placement = contiguous_placement(3, 4, 2);
  EXPECT_EQ(placement.slots(), 6);
  EXPECT_EQ(experts_on(placement, 0), (std::vector{0, 1}));
  EXPECT_EQ(experts_on(placement, 1), (std::vector{2}));
  EXPECT_EQ(experts_on(placement, 2), (std::vector{0, 1}));
  EXPECT_EQ(experts_on(placement, 3), (std::vector{2}));
  EXPECT_EQ(placement.slots_of(ExpertId(2)), ids<SlotId>({2, 5}));
}

TEST(ContiguousPlacement, RejectsGroupsThatDoNotFit) {
  EXPECT_EQ(error_of([] { contiguous_placement(8, 6, 4); }),
            "error: 6 GPUs cannot form groups of ep = 4\n"
            "hint: ep must divide the number of GPUs\n");
  EXPECT_EQ(error_of([] { contiguous_placement(4, 8, 8); }),
            "error: ep = 8 GPUs for 4 experts leaves GPUs without an expert\n"
            "hint: ep may not exceed the number of experts\n");
}

TEST(Placement, RejectsMissingAndUnknownExperts) {
  const auto place = [](std::vector<std::vector<ExpertId>> on) {
    return error_of([&] { Placement(2, on); });
  };
  EXPECT_EQ(place({ids<ExpertId>({0}), {}}), "error: no GPU holds expert 1\n");
  EXPECT_EQ(place({ids<ExpertId>({1}), ids<ExpertId>({1})}), "error: no GPU holds expert 0\n");
  EXPECT_EQ(place({ids<ExpertId>({0, 1, 2})}),
            "error: GPU 0 holds expert 2, but there are experts 0-1 only\n");
  EXPECT_EQ(place({ids<ExpertId>({0, 1, 0})}), "");  // twice on a GPU is as good as on two
}

TEST(Assignment, UsesTheReplicaOfTheOwnGroup) {
  const Assignment assignment(contiguous_placement(4, 4, 2), 2);
  EXPECT_EQ(assignment.slot(GpuId(0), ExpertId(3)), SlotId(3));
  EXPECT_EQ(assignment.gpu(GpuId(1), ExpertId(3)), GpuId(1));
  EXPECT_EQ(assignment.slot(GpuId(2), ExpertId(3)), SlotId(7));
  EXPECT_EQ(assignment.gpu(GpuId(3), ExpertId(0)), GpuId(2));
  EXPECT_EQ(assignment.gpus(GpuId(3))[0], GpuId(2));
}

TEST(Assignment, GroupsOfOneKeepToThemselves) {
  const Assignment assignment(contiguous_placement(2, 3, 1), 1);
  for (int gpu = 0; gpu < 3; ++gpu) {
    EXPECT_EQ(assignment.gpu(GpuId(gpu), ExpertId(1)), GpuId(gpu));
  }
}

TEST(Placement, TablesOfSomeGpusHaveNoOthers) {
  const Placement placement = contiguous_placement(4, 4, 4);
  EXPECT_EQ(placement.table(GpuId(1), 2), (SlotTable{ids<ExpertId>({1}), ids<ExpertId>({2})}));
  EXPECT_EQ(placement.table().size(), 4u);
}

TEST(Assignment, FallsBackToTheLowestSlot) {
  // Expert 1 is on GPUs 0 and 1 only; the group of ranks 2 and 3 holds expert 0 twice.
  const Placement placement(
      2, {ids<ExpertId>({1}), ids<ExpertId>({0, 1}), ids<ExpertId>({0}), ids<ExpertId>({0})});
  const Assignment assignment(placement, 2);
  EXPECT_EQ(assignment.gpu(GpuId(3), ExpertId(1)), GpuId(0));
  EXPECT_EQ(assignment.gpu(GpuId(3), ExpertId(0)), GpuId(2));
  EXPECT_EQ(assignment.gpu(GpuId(0), ExpertId(0)), GpuId(1));
}

TEST(Assignment, ChecksAnExplicitTable) {
  const Placement placement = contiguous_placement(2, 2, 2);
  const auto assign = [&](std::vector<std::vector<SlotId>> table) {
    return error_of([&] { Assignment(placement, table); });
  };
  const auto right = ids<SlotId>({0, 1});
  EXPECT_EQ(assign({right, right}), "");
  EXPECT_EQ(assign({right}), "error: an assignment for 1 ranks on a placement over 2 GPUs\n");
  EXPECT_EQ(assign({right, ids<SlotId>({1, 0})}),
            "error: rank 1 takes expert 0 from slot 1, which holds expert 1\n");
  EXPECT_EQ(assign({right, ids<SlotId>({0, 2})}),
            "error: rank 1 takes expert 1 from slot 2, but there are slots 0-1 only\n");
  EXPECT_EQ(assign({right, ids<SlotId>({0})}),
            "error: the assignment of rank 1 lists 1 slots for 2 experts\n");
  EXPECT_EQ(error_of([&] { Assignment(placement, 3); }),
            "error: 2 GPUs cannot form groups of ep = 3\n"
            "hint: ep must divide the number of GPUs\n");
}

/// Two GPUs; expert 0 in slots 0 (GPU 0) and 2 (GPU 1), expert 1 in slot 1 (GPU 0).
Assignment shared_between(std::int64_t first, std::int64_t second) {
  Placement placement(2, {ids<ExpertId>({0, 1}), ids<ExpertId>({0})});
  const Shares both = {{SlotId(0), first}, {SlotId(2), second}};
  const Shares alone = {{SlotId(1), 1}};
  return Assignment(std::move(placement), {{both, alone}, {both, alone}});
}

TEST(Assignment, SharesTakeTurnsInTokenOrder) {
  const Assignment assignment = shared_between(2, 1);
  ASSERT_TRUE(assignment.split());
  AssignmentWalk walk(assignment);
  std::vector<int> slots;
  for (int i = 0; i < 7; ++i) slots.push_back(walk.next(GpuId(0), ExpertId(0)).value);
  EXPECT_EQ(slots, (std::vector<int>{0, 0, 2, 0, 0, 2, 0}));
  EXPECT_EQ(walk.next(GpuId(1), ExpertId(0)), SlotId(0));  // every rank walks by itself
  EXPECT_EQ(walk.next(GpuId(0), ExpertId(1)), SlotId(1));
}

TEST(Assignment, ThreeSharesTakeTurnsAndBeginAgain) {
  const Placement placement(1, {ids<ExpertId>({0}), ids<ExpertId>({0}), ids<ExpertId>({0})});
  const Shares three = {{SlotId(2), 1}, {SlotId(0), 2}, {SlotId(1), 1}};
  const Assignment assignment(placement, std::vector<std::vector<Shares>>(3, {three}));
  AssignmentWalk walk(assignment);
  std::vector<int> slots;
  for (int i = 0; i < 9; ++i) slots.push_back(walk.next(GpuId(1), ExpertId(0)).value);
  EXPECT_EQ(slots, (std::vector<int>{2, 0, 0, 1, 2, 0, 0, 1, 2}));
}

TEST(RankWalk, TakesTheSlotsThatAnAssignmentWalkTakes) {
  // Three experts on four GPUs; their shares are of one to four slots.
  const Placement placement(3, SlotTable(4, ids<ExpertId>({0, 1, 2})));
  std::mt19937 random(3);
  const auto draw = [&](unsigned below) { return static_cast<std::int64_t>(random() % below); };
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<std::vector<Shares>> shares(4, std::vector<Shares>(3));
    for (auto& of_rank : shares) {
      for (std::size_t e = 0; e < of_rank.size(); ++e) {
        for (std::int64_t n = e == 0 ? 4 : 1 + draw(4); n > 0; --n) {
          of_rank[e].push_back({placement.slots_of(ExpertId(static_cast<std::int64_t>(
                                    e)))[static_cast<std::size_t>(draw(4))],
                                trial % 2 == 0 ? 1 : 1 + draw(3)});
        }
      }
    }
    const Assignment assignment(placement, shares);
    AssignmentWalk expected(assignment);
    for (int rank = 0; rank < 4; ++rank) {
      RankWalk walk(assignment, GpuId(rank)), singly(assignment, GpuId(rank));
      ASSERT_TRUE(singly.singly() || trial % 2 != 0);
      for (int choice = 0; choice < 40; ++choice) {
        const ExpertId expert(draw(3));
        const SlotId slot = expected.next(GpuId(rank), expert);
        ASSERT_EQ(walk.next(expert), slot) << trial << " " << choice;
        if (trial % 2 != 0) continue;
        ASSERT_EQ(singly.next<true>(expert), slot) << trial << " " << choice;
      }
    }
  }
}

TEST(Assignment, ChoicesAddUpAsTheWalkTakesThem) {
  for (int choices = 0; choices < 12; ++choices) {
    const Assignment assignment = shared_between(3, 2);
    std::vector<std::int64_t> walked(3), added(3);
    AssignmentWalk walk(assignment);
    for (int i = 0; i < choices; ++i) ++walked[walk.next(GpuId(0), ExpertId(0)).index()];
    add_choices(assignment, GpuId(0), ExpertId(0), choices, added);
    EXPECT_EQ(added, walked) << choices;
  }
}

TEST(Assignment, OneShareEachIsNotSplit) {
  Placement placement(1, {ids<ExpertId>({0}), {}});
  const std::vector<Shares> row = {{{SlotId(0), 5}}};
  EXPECT_FALSE(Assignment(placement, {row, row}).split());
}

TEST(Assignment, RejectsSharesOfOtherExperts) {
  Placement placement(2, {ids<ExpertId>({0, 1})});
  const auto error = error_of([&] {
    Assignment(placement, std::vector<std::vector<Shares>>{
                              {{{SlotId(0), 1}, {SlotId(1), 1}}, {{SlotId(1), 1}}}});
  });
  EXPECT_EQ(error, "error: rank 0 gives 1 choices of expert 0 to slot 1\n");
}

}  // namespace
}  // namespace moesim
