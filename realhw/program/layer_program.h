// SPDX-License-Identifier: Apache-2.0
// One rank's share of one layer while it is compiled: its experts, and the rows that exchanges
// move.
#pragma once

#include <vector>

#include "realhw/program/draft.h"
#include "realhw/program/expert_program.h"

namespace moesim {

/// A row of a token that serves some of its choices. On the way out it is a copy of the token, on
/// the way back the sum of the results of its choices.
struct HeldRow {
  Choices choices = 0;
  RowSums::Term value;
  OpId made_by{-1};  // below 0: here from the start
};

/// Rows by token. An op takes only what ops before it have made.
class HeldRows {
 public:
  HeldRows(const Ancestors& ancestors, int tokens)
      : ancestors_(ancestors), rows_(static_cast<std::size_t>(tokens)) {}

  void add(TokenId token, HeldRow row) { rows_[token.index()].push_back(row); }
  /// A copy of the token; `choices` are given away. Throws std::runtime_error when some of them, or
  /// for 0 the token itself, are not here.
  Place take_copy(TokenId token, Choices choices, OpId op);
  /// Appends the parts of the sum of exactly these choices and gives them away (nothing for 0).
  /// Throws std::runtime_error when some are not here, or only within a sum with others.
  void take_sum(TokenId token, Choices choices, OpId op, std::vector<RowSums::Term>& terms);
  /// Whether the op may take results of all these choices.
  bool has(TokenId token, Choices choices, OpId op) const {
    return (choices & ~held(token, op)) == 0;
  }
  const std::vector<HeldRow>& rows(TokenId token) const { return rows_[token.index()]; }

 private:
  bool usable(const HeldRow& row, OpId op) const { return ancestors_.visible(row.made_by, op); }
  Choices held(TokenId token, OpId op) const;

  const Ancestors& ancestors_;
  std::vector<std::vector<HeldRow>> rows_;  // [token]
};

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
