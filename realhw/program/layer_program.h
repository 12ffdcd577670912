// SPDX-License-Identifier: Apache-2.0
// One rank's share of one layer while it is compiled: rows in transit, and its experts.
#pragma once

#include <vector>

#include "realhw/program/expert_program.h"
#include "realhw/program/held_rows.h"

namespace moesim {

class LayerProgram {
 public:
  /// Reads from the plan which exchange brings which choice. All arguments must outlive it.
  LayerProgram(Draft& draft, const RoutedLayer& routing);

  /// Appends the parts of a row that an exchange sends.
  void take(const RankStep& step, const RowMove& row, std::vector<RowSums::Term>& terms);
  /// A row of an exchange has arrived.
  void store(const RankStep& step, const RowMove& row, Place at);
  /// Adds the calls of a kernel that computes with token rows. False: it is none of these.
  bool add_kernel(RankStep& step);
  /// In an iteration, what comes from the blocks around: one row per own token, or its gradient.
  void enter(Pass pass, Place first, OpId made_by);
  /// In an iteration, what continues: the results of every own token, all of them. Throws
  /// std::runtime_error when some are not there for `op`.
  std::vector<TokenResult> take_sums(Pass pass, OpId op);
  /// What the rank holds once the step has ended.
  LayerResults results();

 private:
  /// A choice that this rank serves, and the exchange that brings it at last (below 0: none, it is
  /// here from the start).
  struct Expected {
    ChoiceId choice;
    OpId brought_by{-1};
  };
  /// The rows of one pass.
  struct PassRows {
    PassRows(const Ancestors& ancestors, int tokens)
        : out(ancestors, tokens), back(ancestors, tokens) {}

    HeldRows out, back;
    std::vector<Expected> expected;      // not yet gathered, ascending
    std::vector<std::int64_t> taken_by;  // [choice] the row that carries its result first; -1: none
  };

  PassRows& rows(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
  void read_exchanges();
  void place_tokens(Pass pass);
  std::vector<TokenId> own_tokens() const;
  void take_unreleased(Pass pass, const OpId* op);
  void gather(RankStep& step);
  void release(RankStep& step);
  std::vector<TokenResult> results(Pass pass);

  Draft& draft_;
  const RoutedLayer& routing_;
  bool padded_ = false;
  PassRows forward_, backward_;
  ExpertProgram experts_;
};

}  // namespace moesim
