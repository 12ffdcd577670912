// SPDX-License-Identifier: Apache-2.0
// Grids against Megatron-Core's printed examples, and against groups found by counting through all
// coordinates.
#include "sim/planner/parallel/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int>>;

Lists lists(const GpuGroups& groups) {
  Lists result;
  for (const auto& group : groups) {
    auto& list = result.emplace_back();
    for (const GpuId gpu : group) list.push_back(gpu.value);
  }
  return result;
}

std::string grid_refusal(const ParallelSizes& sizes, int gpus) {
  return error_of([&] { Grid(sizes, gpus); });
}

TEST(Grid, HasMegatronsPrintedGroups) {
  const Grid grid({.tp = 2, .pp = 4}, 16);
  EXPECT_EQ(lists(grid.groups(ParallelAxis::dp)),
            (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(lists(grid.groups(ParallelAxis::tp)),
            (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(lists(grid.groups(ParallelAxis::pp)),
            (Lists{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  // 8 GPUs, tp 4, cp 2.
  EXPECT_EQ(lists(Grid({.tp = 4, .cp = 2}, 8).groups(ParallelAxis::cp)),
            (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  // 8 GPUs, 2 of each, pipelines between tensors and replicas.
  EXPECT_EQ(lists(Grid({.tp = 2, .pp = 2, .order = "tp-pp-dp"}, 8).groups(ParallelAxis::dp)),
            (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  // Sizes 2, 3, 4 in the order tp-dp-pp.
  const GpuGroups dp = Grid({.tp = 2, .pp = 4, .order = "tp-dp-pp"}, 24).groups(ParallelAxis::dp);
  EXPECT_EQ(lists({dp[0], dp[1], dp[7]}), (Lists{{0, 2, 4}, {1, 3, 5}, {19, 21, 23}}));
}

TEST(Grid, FoldsExpertsOverTensorsSequencesAndReplicas) {
  // tp 2 x cp 2 x dp 2 and etp 1 x ep 8 on the same 8 GPUs of a stage.
  const Grid grid({.tp = 2, .cp = 2, .pp = 2, .ep = 8, .etp = 1}, 16);
  EXPECT_EQ(lists(grid.groups(ParallelAxis::ep)),
            (Lists{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(grid.size(ParallelAxis::edp), 1);
  EXPECT_EQ(lists(grid.groups(ParallelAxis::dp_cp)),
            (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(grid.place(GpuId(13)), (GridPlace{1, 0, 1, 1, 0, 5, 0}));
  EXPECT_EQ(lists({grid.stage(1)}), (Lists{{8, 9, 10, 11, 12, 13, 14, 15}}));
}

TEST(Grid, TakesTpForEtpUnlessItIsGiven) {
  const Grid grid({.tp = 2, .ep = 2}, 8);
  EXPECT_EQ(grid.size(ParallelAxis::etp), 2);
  EXPECT_EQ(lists(grid.groups(ParallelAxis::ep)), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(lists(grid.groups(ParallelAxis::etp_ep)), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(Grid, ListsAStageGroupByGroup) {
  const Grid grid({.tp = 2, .pp = 2, .ep = 4}, 16);  // etp 2
  EXPECT_EQ(lists({grid.stage_by(ParallelAxis::ep, 1)}), (Lists{{8, 10, 12, 14, 9, 11, 13, 15}}));
  EXPECT_EQ(grid.stage_by(ParallelAxis::tp, 1), grid.stage(1));
  EXPECT_THROW(grid.stage_by(ParallelAxis::pp, 0), std::invalid_argument);
}

/// Every rank with the coordinates that add up to it, found by counting through all of them.
std::map<int, std::map<std::string, int>> by_counting(
    const std::vector<std::pair<std::string, int>>& axes) {
  std::map<int, std::map<std::string, int>> ranks = {{0, {}}};
  int stride = 1;
  for (const auto& [name, size] : axes) {
    std::map<int, std::map<std::string, int>> more;
    for (const auto& [rank, place] : ranks) {
      for (int c = 0; c < size; ++c) {
        auto& to = more[rank + c * stride] = place;
        to[name] = c;
      }
    }
    stride *= size;
    ranks = std::move(more);
  }
  return ranks;
}

/// Ranks that agree in all axes but those of the group.
std::set<std::vector<int>> groups_by_counting(
    const std::map<int, std::map<std::string, int>>& ranks, const std::set<std::string>& axes) {
  std::map<std::map<std::string, int>, std::vector<int>> groups;
  for (const auto& [rank, place] : ranks) {
    auto rest = place;
    for (const std::string& axis : axes) rest.erase(axis);
    groups[rest].push_back(rank);
  }
  std::set<std::vector<int>> result;
  for (const auto& entry : groups) result.insert(entry.second);
  return result;
}

struct AxisOf {
  ParallelAxis axis;
  bool expert;
  std::set<std::string> names;
};

void check_against_counting(const ParallelSizes& s, const Grid& grid, int gpus) {
  const int etp = s.etp.value_or(s.tp);
  const std::map<std::string, int> dense_size = {
      {"tp", s.tp}, {"cp", s.cp}, {"ep", 1}, {"dp", gpus / (s.tp * s.cp * s.pp)}, {"pp", s.pp}};
  const std::map<std::string, int> expert_size = {
      {"tp", etp}, {"cp", 1}, {"ep", s.ep}, {"dp", gpus / (etp * s.ep * s.pp)}, {"pp", s.pp}};
  std::vector<std::pair<std::string, int>> dense_axes, expert_axes;
  for (std::size_t at = 0; at < s.order.size(); at += 3) {
    const std::string name = s.order.substr(at, 2);
    dense_axes.emplace_back(name, dense_size.at(name));
    expert_axes.emplace_back(name, expert_size.at(name));
  }
  const auto dense = by_counting(dense_axes), expert = by_counting(expert_axes);
  ASSERT_EQ(dense.size(), static_cast<std::size_t>(gpus));
  const AxisOf all[] = {
      {ParallelAxis::tp, false, {"tp"}},          {ParallelAxis::cp, false, {"cp"}},
      {ParallelAxis::dp, false, {"dp"}},          {ParallelAxis::pp, false, {"pp"}},
      {ParallelAxis::pp, true, {"pp"}},           {ParallelAxis::ep, true, {"ep"}},
      {ParallelAxis::etp, true, {"tp"}},          {ParallelAxis::edp, true, {"dp"}},
      {ParallelAxis::tp_cp, false, {"tp", "cp"}}, {ParallelAxis::dp_cp, false, {"dp", "cp"}},
      {ParallelAxis::etp_ep, true, {"tp", "ep"}}};
  for (const auto& [axis, experts, names] : all) {
    SCOPED_TRACE(std::string(name_of(axis)) + " of " + s.order);
    const Lists found = lists(grid.groups(axis));
    EXPECT_EQ(std::set(found.begin(), found.end()),
              groups_by_counting(experts ? expert : dense, names));
    EXPECT_TRUE(std::ranges::is_sorted(found));
    std::vector<int> seen;
    for (std::size_t g = 0; g < found.size(); ++g) {
      EXPECT_EQ(found[g].size(), static_cast<std::size_t>(grid.size(axis)));
      for (std::size_t m = 0; m < found[g].size(); ++m) {
        EXPECT_EQ(grid.group_of(axis, GpuId(found[g][m])), static_cast<int>(g));
        EXPECT_EQ(grid.member(axis, GpuId(found[g][m])), static_cast<int>(m));
        seen.push_back(found[g][m]);
      }
    }
    std::ranges::sort(seen);  // the groups part the GPUs
    for (int gpu = 0; gpu < gpus; ++gpu) ASSERT_EQ(seen[static_cast<std::size_t>(gpu)], gpu);
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const GridPlace p = grid.place(GpuId(gpu));
    const std::map<std::string, int> of_dense = {
        {"tp", p.tp}, {"cp", p.cp}, {"ep", 0}, {"dp", p.dp}, {"pp", p.pp}};
    const std::map<std::string, int> of_expert = {
        {"tp", p.etp}, {"cp", 0}, {"ep", p.ep}, {"dp", p.edp}, {"pp", p.pp}};
    EXPECT_EQ(of_dense, dense.at(gpu));
    EXPECT_EQ(of_expert, expert.at(gpu));
    EXPECT_TRUE(std::ranges::binary_search(grid.stage(p.pp), GpuId(gpu)));
  }
}

TEST(Grid, AgreesWithCountingThroughAllCoordinates) {
  std::mt19937 random(5);
  const auto pick = [&](std::vector<int> of) { return of[random() % of.size()]; };
  int built = 0;
  for (int round = 0; round < 2000; ++round) {
    ParallelSizes s{
        .tp = pick({1, 2, 3}), .cp = pick({1, 2}), .pp = pick({1, 2, 4}), .ep = pick({1, 2, 4, 6})};
    if (random() % 2 == 0) s.etp = pick({1, 2, 3});
    std::vector<std::string> axes = {"tp", "cp", "ep", "dp", "pp"};
    std::ranges::shuffle(axes, random);
    s.order = axes[0];
    for (std::size_t i = 1; i < axes.size(); ++i) s.order += "-" + axes[i];
    const int gpus = s.tp * s.cp * s.pp * pick({1, 2, 3, 4, 6});
    if (!grid_refusal(s, gpus).empty()) continue;
    check_against_counting(s, Grid(s, gpus), gpus);
    ++built;
  }
  EXPECT_GT(built, 200);
}

TEST(Grid, RefusesWhatMegatronRefusesAndSaysWhichRule) {
  EXPECT_EQ(grid_refusal({.tp = 2, .cp = 2, .pp = 3, .etp = 1}, 24), "");
  EXPECT_THAT(grid_refusal({.tp = 3}, 8), HasSubstr("tp x cp x pp must divide the number of GPUs"));
  EXPECT_THAT(grid_refusal({.tp = 2, .dp = 2}, 8),
              HasSubstr("the product must be the number of GPUs: dp = 4"));
  EXPECT_THAT(grid_refusal({.tp = 2, .ep = 8}, 8),
              AllOf(HasSubstr("etp 2 x ep 8 x pp 1 (etp is tp unless it is given)"),
                    HasSubstr("etp x ep x pp must divide the number of GPUs")));
  EXPECT_THAT(grid_refusal({.vpp = 2}, 8), HasSubstr("pp must be larger than 1"));
  EXPECT_THAT(grid_refusal({.tp = 0}, 8), HasSubstr("tp = 0 is not a degree of parallelism"));
  EXPECT_THAT(grid_refusal({.ep = 2, .order = "tp-cp-dp-pp"}, 8),
              HasSubstr("lacks ep, which has size 2"));
  EXPECT_THAT(grid_refusal({.order = "tp-xp"}, 8), HasSubstr("has no axis 'xp'"));
  EXPECT_THAT(grid_refusal({.order = "tp-dp-tp"}, 8), HasSubstr("has tp twice"));
  EXPECT_THAT(grid_refusal({.order = "tp-"}, 8), HasSubstr("has no axis ''"));
  EXPECT_THAT(grid_refusal({.tp = 2, .pp = 2, .ep = 4, .etp = 1, .order = "tp-pp-cp-ep-dp"}, 8),
              HasSubstr("let pp come last, or let dp and edp be the same: they are 2 and 1"));
  // dp = edp = 2, but stages are 2 apart on one grid and 4 on the other.
  EXPECT_THAT(grid_refusal({.tp = 2, .pp = 2, .ep = 2, .etp = 1, .order = "ep-pp-tp-dp"}, 8),
              HasSubstr("different pipelines"));
}

TEST(Grid, OfTwoThousandGpusHasStagesOfNeighbours) {
  const Grid grid({.pp = 16, .ep = 64}, 2048);
  EXPECT_EQ(grid.size(ParallelAxis::dp), 128);
  EXPECT_EQ(grid.size(ParallelAxis::edp), 2);
  EXPECT_EQ(grid.stage(3).front(), GpuId(384));
  EXPECT_EQ(grid.stage(3).back(), GpuId(511));
}

}  // namespace
}  // namespace moesim
