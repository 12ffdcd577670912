// SPDX-License-Identifier: Apache-2.0
// One grid of ranks: a rank is a number whose digits are its coordinates.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// An axis of a grid with its size, such as {"tp", 8}.
struct GridAxis {
  std::string name;
  int size = 1;
};

/// rank = sum of coordinate[i] x product of the sizes of the axes before i.
class RankGrid {
 public:
  /// The axis of neighbouring ranks first.
  explicit RankGrid(std::vector<GridAxis> axes) : axes_(std::move(axes)) {}

  /// The coordinate of a rank on an axis; 0 for an axis that there is not.
  int coordinate(int rank, const std::string& axis) const;
  /// Per rank of so many the group it is in, if the ranks of a group differ only in these axes;
  /// groups are numbered by their first rank.
  std::vector<int> groups(int ranks, const std::vector<std::string>& axes) const;

 private:
  std::vector<GridAxis> axes_;
};

}  // namespace moesim
