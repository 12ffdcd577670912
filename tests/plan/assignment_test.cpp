// SPDX-License-Identifier: Apache-2.0
// Assignments cut into parts and joined again, and what none of them may be.
#include "sim/plan/assignment.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// Some slots of each of `experts` on `gpus` GPUs, and shares of 1 to `most` of them for every
/// rank.
Assignment drawn_assignment(std::mt19937& random, int experts, int gpus, int most) {
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  SlotTable table(static_cast<std::size_t>(gpus));
  for (int e = 0; e < experts; ++e) {
    for (int copies = 1 + draw(3); copies > 0; --copies) {
      table[static_cast<std::size_t>(draw(gpus))].emplace_back(e);
    }
  }
  Placement placement(experts, table);
  std::vector<std::vector<Shares>> shares(static_cast<std::size_t>(gpus));
  for (auto& of_rank : shares) {
    for (int e = 0; e < experts; ++e) {
      const auto& slots = placement.slots_of(ExpertId(e));
      Shares& mine = of_rank.emplace_back();
      for (int n = 1 + draw(most); n > 0; --n) {
        mine.push_back(
            {slots[static_cast<std::size_t>(draw(static_cast<int>(slots.size())))], 1 + draw(4)});
      }
    }
  }
  return Assignment(std::move(placement), shares);
}

/// The slots that a rank's first choices of an expert take.
std::vector<int> walked(const Assignment& assignment, int rank, int expert) {
  AssignmentWalk walk(assignment);
  std::vector<int> slots;
  for (int i = 0; i < 12; ++i) slots.push_back(walk.next(GpuId(rank), ExpertId(expert)).value);
  return slots;
}

TEST(JoinedAssignments, NumberRanksAndSlotsOnAndPartsAreWhatTheyWere) {
  std::mt19937 random(4);
  int split = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int experts = 1 + trial % 4;
    std::vector<Assignment> parts;
    for (int p = 0; p < 3; ++p) {  // some of them have one share each
      parts.push_back(drawn_assignment(random, experts, 1 + static_cast<int>(random() % 3),
                                       random() % 2 == 0 ? 1 : 3));
    }
    const Assignment all = Assignment::joined(parts);
    split += all.split() && !(parts[0].split() && parts[1].split() && parts[2].split());
    EXPECT_EQ(all.split(), parts[0].split() || parts[1].split() || parts[2].split());
    int first = 0, slots = 0;
    for (const Assignment& part : parts) {
      const int gpus = part.placement().gpus();
      const Assignment again = all.part(GpuId(first), gpus);
      EXPECT_EQ(again.placement().table(), part.placement().table());
      for (int rank = 0; rank < gpus; ++rank) {
        for (int e = 0; e < experts; ++e) {
          const std::vector<int> expected = walked(part, rank, e);
          EXPECT_EQ(walked(again, rank, e), expected);
          EXPECT_EQ(again.slot(GpuId(rank), ExpertId(e)), part.slot(GpuId(rank), ExpertId(e)));
          std::vector<int> moved;
          for (const int slot : expected) moved.push_back(slots + slot);
          EXPECT_EQ(walked(all, first + rank, e), moved);
          EXPECT_EQ(all.slot(GpuId(first + rank), ExpertId(e)).value, moved.front());
        }
      }
      first += gpus;
      slots += part.placement().slots();
    }
    EXPECT_EQ(all.placement().gpus(), first);
    EXPECT_EQ(all.placement().slots(), slots);
  }
  EXPECT_GT(split, 10);  // of parts that are split and parts that are not
}

TEST(Assignments, ShareTheirTableWithCopiesAndWithThePartThatIsTheWhole) {
  std::mt19937 random(6);
  const Assignment all = drawn_assignment(random, 4, 3, 2);
  const Assignment copy = all, part = all.part(GpuId(0), 3);
  EXPECT_EQ(&copy.placement(), &all.placement());
  EXPECT_EQ(&part.placement(), &all.placement());
}

TEST(Assignments, OfGroupsAreThoseOfATableThatSaysTheSame) {
  const Placement placement = contiguous_placement(4, 6, 3);
  const Assignment groups(placement, 3);
  std::vector<std::vector<SlotId>> slots(6);
  for (int rank = 0; rank < 6; ++rank) {
    for (int e = 0; e < 4; ++e) {
      slots[static_cast<std::size_t>(rank)].push_back(groups.slot(GpuId(rank), ExpertId(e)));
    }
  }
  EXPECT_EQ(Assignment(placement, slots), groups);
  EXPECT_TRUE(groups.alike(GpuId(0), GpuId(2)));
  EXPECT_FALSE(groups.alike(GpuId(2), GpuId(3)));
}

TEST(AssignmentChoices, AddUpAsManySharesAreWalked) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const Assignment assignment = drawn_assignment(random, 2, 3, 4);
    for (int choices = 0; choices < 12; ++choices) {
      std::vector<std::int64_t> expected(static_cast<std::size_t>(assignment.placement().slots()));
      auto added = expected;
      AssignmentWalk walk(assignment);
      for (int i = 0; i < choices; ++i) ++expected[walk.next(GpuId(1), ExpertId(1)).index()];
      add_choices(assignment, GpuId(1), ExpertId(1), choices, added);
      EXPECT_EQ(added, expected) << trial << " " << choices;
    }
  }
}

TEST(AssignmentRefuses, SharesThatAreNoneOfTheExpert) {
  const Placement placement(2, {ids<ExpertId>({0, 1, 0})});
  const auto with = [&](Shares of_first) {
    return error_of([&] {
      Assignment(placement,
                 std::vector<std::vector<Shares>>{{std::move(of_first), {{SlotId(1), 1}}}});
    });
  };
  EXPECT_EQ(with({{SlotId(0), 1}, {SlotId(2), 1}}), "");
  EXPECT_EQ(with({}), "error: rank 0 has no slot for expert 0\n");
  EXPECT_EQ(with({{SlotId(0), 0}}), "error: rank 0 gives 0 choices of expert 0 to slot 0\n");
  EXPECT_EQ(with({{SlotId(0), 1}, {SlotId(-1), 1}}),
            "error: rank 0 gives 1 choices of expert 0 to slot -1\n");
  EXPECT_EQ(with({{SlotId(0), 1}, {SlotId(3), 1}}),
            "error: rank 0 gives 1 choices of expert 0 to slot 3\n");
  EXPECT_EQ(with({{SlotId(-1), 1}}),
            "error: rank 0 takes expert 0 from slot -1, but there are slots 0-2 only\n");
}

TEST(AssignmentRefuses, GroupsOfNoRanks) {
  EXPECT_EQ(error_of([] { Assignment(contiguous_placement(2, 2, 2), 0); }),
            "error: 2 GPUs cannot form groups of ep = 0\n"
            "hint: ep must divide the number of GPUs\n");
}

TEST(PlacementRefuses, NumbersOfExpertsThatItCannotHold) {
  const auto place = [](int experts, const std::vector<ExpertId>& on) {
    return error_of([&] { Placement(experts, {on}); });
  };
  EXPECT_EQ(place(1, ids<ExpertId>({0})), "");
  EXPECT_EQ(place(0, {}), "error: a placement needs an expert or more, not 0\n");
  EXPECT_EQ(place(2, ids<ExpertId>({0, -1})),
            "error: GPU 0 holds expert -1, but there are experts 0-1 only\n");
  EXPECT_EQ(place(10, ids<ExpertId>({3, 0})), "error: no GPU holds expert 1\n");
  EXPECT_EQ(place(1'000'000'000, ids<ExpertId>({0, 1})), "error: no GPU holds expert 2\n");
}

TEST(PlacementRefuses, GroupsWithoutGpus) {
  const auto place = [](int experts, int gpus, int ep) {
    return error_of([&] { contiguous_placement(experts, gpus, ep); });
  };
  const std::string hint = "hint: ep must divide the number of GPUs\n";
  EXPECT_EQ(place(1, 1, 1), "");
  EXPECT_EQ(place(8, 0, 1), "error: 0 GPUs cannot form groups of ep = 1\n" + hint);
  EXPECT_EQ(place(8, 4, 0), "error: 4 GPUs cannot form groups of ep = 0\n" + hint);
  EXPECT_EQ(place(4, 4, 4), "");
}

}  // namespace
}  // namespace moesim
