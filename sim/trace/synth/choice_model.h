// SPDX-License-Identifier: Apache-2.0
// The generative model of one layer: how a token chooses its experts, given the token before it.
#pragma once

#include <optional>
#include <vector>

#include "sim/trace/synth/group_gate.h"
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
  // Group-limited gate (GroupGate).
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
  /// By the anchor's row of partners, made ready when it is first met.
  const GroupGate::Weights& gate_weights(int anchor);
  double weight(int expert, int anchor) const;
  int draw(int anchor, Random& random) const;
  int draw_exactly(int anchor, Random& random) const;
  const std::vector<double>& partners_of(int anchor) const;

  ChoiceModel model_;
  AliasTable popularity_;
  std::vector<AliasTable> partners_;
  std::vector<char> chosen_;
  std::optional<GroupGate> gate_;
  std::vector<GroupGate::Weights> gate_weights_;  // [row of partners], one without affinity
};

}  // namespace moesim
