// SPDX-License-Identifier: Apache-2.0
// The generative model of one layer: how a token chooses its experts, given the token before it.
#pragma once

#include <utility>
#include <vector>

#include "sim/trace/synth/random.h"

namespace moesim {

/// A token keeps each expert of the token before it with probability `stickiness`. Its anchor is
/// one of the kept experts, or without any its first choice, drawn by popularity. Every further
/// choice is drawn from the anchor's partners with probability `affinity`, else by popularity, and
/// again until it is new.
struct ChoiceModel {
  int top_k = 1;
  double stickiness = 0;
  double affinity = 0;
  std::vector<double> popularity;             // [expert], sums to 1
  std::vector<int> partner_row;               // [expert] -> row of partners; empty without affinity
  std::vector<std::vector<double>> partners;  // [row][expert], each sums to 1
  // Group-limited gate: an expert with weight w scores u^(1/w), u uniform; the kept_groups groups
  // with the largest sum of their best (top_k / kept_groups) scores stay, and the best top_k of
  // them.
  int groups = 1;
  int kept_groups = 1;
};

/// Divides weights by their sum.
void normalise(std::vector<double>& weights);

/// Draws rows of a ChoiceModel.
class ChoiceSampler {
 public:
  explicit ChoiceSampler(ChoiceModel model);

  /// Replaces `row`, the choices of the token before (empty at the start of a sequence), by those
  /// of the next token.
  void next(std::vector<int>& row, Random& random);

 private:
  void choose(std::vector<int>& row, int anchor, Random& random);
  void choose_by_groups(std::vector<int>& row, int anchor, Random& random);
  /// Fills score_ from uniform_ and weight_; `kept` are the experts of the token before.
  template <class Pow>
  void score(const std::vector<int>& kept, Pow pow);
  /// The row that score_ gives, and by how little of a score it would be another one.
  double take_best(std::vector<int>& row);
  double weight(int expert, int anchor) const;
  int draw(int anchor, Random& random) const;
  int draw_exactly(int anchor, Random& random) const;
  const std::vector<double>& partners_of(int anchor) const;

  ChoiceModel model_;
  AliasTable popularity_;
  std::vector<AliasTable> partners_;
  std::vector<char> chosen_;
  // Of the group-limited gate, by expert; and what one choice needs, kept for the next.
  std::vector<double> uniform_, weight_, score_, best_;
  std::vector<std::pair<double, int>> ranked_, allowed_;
};

}  // namespace moesim
