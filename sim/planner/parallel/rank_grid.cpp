// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/parallel/rank_grid.h"

#include <algorithm>

namespace moesim {

int RankGrid::coordinate(int rank, const std::string& axis) const {
  int stride = 1;
  for (const GridAxis& a : axes_) {
    if (a.name == axis) return rank / stride % a.size;
    stride *= a.size;
  }
  return 0;
}

std::vector<int> RankGrid::groups(int ranks, const std::vector<std::string>& axes) const {
  std::vector<int> group_of;
  for (int rank = 0; rank < ranks; ++rank) {
    // The digits of the other axes are the group's number: with the last axis the most significant
    // one, as in the rank, groups ascend with their first rank.
    int group = 0, stride = 1, numbers = 1;
    for (const GridAxis& a : axes_) {
      if (std::ranges::find(axes, a.name) == axes.end()) {
        group += rank / stride % a.size * numbers;
        numbers *= a.size;
      }
      stride *= a.size;
    }
    group_of.push_back(group);
  }
  return group_of;
}

}  // namespace moesim
