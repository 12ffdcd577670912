// SPDX-License-Identifier: Apache-2.0
// Waterfill: which rank computes a token's shared expert, and what the layer then sends.
#include "sim/mechanism/placement/serving/waterfill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/mechanism/hand_steps.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using testing::ElementsAre;
constexpr int filled_ranks = 4, routed_experts = 8, routed_choices = 2;
using Choose = std::vector<int> (*)(int rank, int token);

Rows tokens_of(int each, Choose choose) {
  Rows tokens;
  for (int rank = 0; rank < filled_ranks; ++rank) {
    for (int t = 0; t < each; ++t) tokens.push_back(choose(rank, t));
  }
  return tokens;
}

/// All for experts 0 to 2, of ranks 0 and 1.
std::vector<int> skewed(int, int token) { return {0, token % 3 == 0 ? 2 : 1}; }
std::vector<int> mild(int rank, int token) {
  if (token % 8 == 0) return {0, 1};
  return {(token + rank) % routed_experts, (token + rank + 3) % routed_experts};
}

/// The shared rows [source][rank] that a plan deals out.
std::vector<std::vector<std::int64_t>> shared_rows(const PlannedStep& planned, int each) {
  const Assignment& assignment = planned.layers[0].assignment();
  std::vector<std::vector<std::int64_t>> rows;
  for (int source = 0; source < filled_ranks; ++source) {
    std::vector<std::int64_t> slots(static_cast<std::size_t>(assignment.placement().slots()));
    add_choices(assignment, GpuId(source), ExpertId(routed_experts), each, slots);
    auto& of_rank = rows.emplace_back(filled_ranks);
    for (const SlotId slot : assignment.placement().slots_of(ExpertId(routed_experts))) {
      of_rank[assignment.placement().gpu_of(slot).index()] = slots[slot.index()];
    }
  }
  return rows;
}

PlannedStep planned(int each, Choose choose, const std::string& placement = "waterfill") {
  return HandSteps(1, filled_ranks, routed_experts, tokens_of(each, choose), 1, 128)
      .last("identity", placement, "dedup");
}

/// By the released kernel's arithmetic, outside of this program.
TEST(Waterfill, DealsAsTheReleasedKernel) {
  EXPECT_THAT(shared_rows(planned(64, mild), 64),
              ElementsAre(ElementsAre(4, 23, 19, 18), ElementsAre(4, 23, 20, 17),
                          ElementsAre(4, 21, 22, 17), ElementsAre(4, 22, 18, 20)));
  // Rank 0 is above the target: tokens stay where they are or go to rank 1, which they visit.
  EXPECT_THAT(shared_rows(planned(64, skewed), 64),
              ElementsAre(ElementsAre(42, 22, 0, 0), ElementsAre(0, 64, 0, 0),
                          ElementsAre(0, 9, 55, 0), ElementsAre(0, 7, 0, 57)));
}

TEST(Waterfill, FewTokensStayAtHome) {
  EXPECT_THAT(shared_rows(planned(63, skewed), 63),
              ElementsAre(ElementsAre(63, 0, 0, 0), ElementsAre(0, 63, 0, 0),
                          ElementsAre(0, 0, 63, 0), ElementsAre(0, 0, 0, 63)));
}

std::vector<std::int64_t> rows_of_ranks(const PlannedStep& planned) {
  const Placement& placement = planned.layers[0].assignment().placement();
  std::vector<std::int64_t> rows(filled_ranks);
  for (int s = 0; s < placement.slots(); ++s) {
    rows[placement.gpu_of(SlotId(s)).index()] +=
        planned.layers[0].counts.slots[static_cast<std::size_t>(s)];
  }
  return rows;
}

TEST(Waterfill, LevelsRowsAndSendsNoneToNewRanksAboveTheTarget) {
  const auto level = rows_of_ranks(planned(64, mild));
  EXPECT_EQ(level[0] + level[1] + level[2] + level[3], 64 * filled_ranks * (routed_choices + 1));
  // Alone, rank 0 has 176 routed rows and 64 shared ones.
  EXPECT_EQ(level[0], 176 + 16);
  const HandSteps steps(1, filled_ranks, routed_experts, tokens_of(64, skewed), 1, 128);
  // What is new stays on its rank: shared rows of ranks 1, 2 and 3 whose tokens visited only
  // others.
  EXPECT_EQ(steps.rows("waterfill", "dedup"), steps.rows("contiguous", "dedup") + 42 + 55 + 57);
}

TEST(Waterfill, TheSharedExpertIsNoKernelOfItsOwn) {
  const auto kernels = [](const PlannedStep& planned) {
    int shared = 0;
    for (const Op& op : planned.plan.ops) shared += op.key.kind == OpKind::shared_fc1 ? 1 : 0;
    return shared;
  };
  EXPECT_EQ(kernels(planned(64, mild)), 0);
  EXPECT_EQ(kernels(planned(64, mild, "contiguous")), 1);
}

TEST(Waterfill, EveryDispatchDeliversItOnNodesToo) {
  const HandSteps steps(2, 2, routed_experts, tokens_of(64, mild), 2, 128);
  for (const std::string dispatch : {"alltoall", "dedup", "deepep-normal", "hybrid-ep"}) {
    for (const PlannedStep& step : steps.all("identity", "waterfill", dispatch)) {
      EXPECT_EQ(step.layers[0].counts.slots.size(), 12u) << dispatch;
    }
  }
  EXPECT_NO_THROW(steps.all("{kind: rank-capacity, factor: 0.5}", "waterfill", "dedup"));
}

TEST(Waterfill, RefusesWhatItCannotServe) {
  const auto error = [](int shared, bool backward) {
    return error_of([&] {
      HandSteps(1, filled_ranks, routed_experts, tokens_of(1, mild), 1, shared)
          .all("identity", "waterfill", "dedup", backward);
    });
  };
  EXPECT_THAT(error(128, true), testing::HasSubstr("it serves: no gradients"));
  EXPECT_THAT(error(0, false), testing::HasSubstr("has 0 of width 0, routed ones of 128"));
  EXPECT_THAT(error(64, false), testing::HasSubstr("has 1 of width 64, routed ones of 128"));
}

TEST(Waterfill, WithoutRoomTheLeastLoadedOfTheVisitedComputes) {
  const waterfill::Water full{{100, 50, 91, 10}, 5, false};
  EXPECT_EQ(waterfill::rank_for(full, GpuId(0), 0, std::vector{GpuId(1), GpuId(2)}), GpuId(1));
  EXPECT_EQ(waterfill::rank_for(full, GpuId(0), 0, std::vector{GpuId(2)}), GpuId(0));
  EXPECT_EQ(error_of([] { waterfill::fill({}, {}, 0); }), "error: tokens without routed choices\n");
}

}  // namespace
}  // namespace moesim
