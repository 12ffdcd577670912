// SPDX-License-Identifier: Apache-2.0
// A group-limited gate that draws choices at random: of a token's expert groups only the best stay.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sim/trace/synth/random.h"

namespace moesim {

/// An expert with weight w scores u^(1/w), u uniform, and one that the token keeps of the token
/// before scores 1 more. The kept_groups groups with the largest sum of their best (top_k /
/// kept_groups) scores stay, and the best top_k of them are chosen; ties go to the lowest id. What
/// is drawn is the same on every machine, although most scores are never computed: few can win, and
/// the machine's own exp and log decide unless two scores are too near.
class GroupGate {
 public:
  /// Weights prepared for many draws.
  struct Weights {
    std::vector<double> weight;  // [expert], mean 1
    std::vector<double> cut;     // [group]: a score that enough of its experts pass
    std::vector<double> least;   // [expert]: u that scores the cut
  };

  GroupGate(int experts, int top_k, int groups, int kept_groups);

  Weights ready(std::vector<double> weight) const;
  /// Replaces `row`, the experts that are kept, by the choices of a token.
  void choose(std::vector<int>& row, const Weights& weights, Random& random);

 private:
  using Pow = double(double, double);
  /// Scores some experts and takes the best. Whether it is certain that neither the others, which
  /// score at most the cut of their group, nor nearer arithmetic would change the row.
  bool take_best(std::span<const int> of, const Weights& weights, std::span<const double> cut,
                 Pow* pow, std::vector<int>& row);
  /// Finds the groups that stay, and whether that is certain.
  bool rank_groups(std::span<const int> of, std::span<const double> cut);

  int top_k_, groups_, kept_groups_;
  int size_;     // of a group
  int counted_;  // of its scores
  std::vector<int> experts_, likely_;
  std::vector<char> kept_, kept_group_;  // [expert], [group]
  std::vector<double> no_cut_;           // [group]
  std::vector<double> uniform_;          // [expert]
  std::vector<double> score_, best_;
  std::vector<std::pair<double, int>> ranked_, allowed_;  // negative score, group or expert
};

}  // namespace moesim
