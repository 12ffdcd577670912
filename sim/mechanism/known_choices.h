// SPDX-License-Identifier: Apache-2.0
// What was counted of the tokens of one layer. A placement, the choice of a dispatch and the
// dispatch itself look at the same tokens one after the other, and most of their time goes there.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/trace/batches.h"
#include "sim/trace/id_counts.h"

namespace moesim {

/// Keeps the counts that this thread makes during its life, one at a time. All ids that are counted
/// meanwhile must outlive it.
class KnownChoices {
 public:
  using Members = std::vector<TouchCounter::Member>;
  struct Rows {
    Members members;
    std::vector<std::uint32_t> rows;  // [class]
  };
  /// Of all tokens of a rank.
  struct OfRank {
    const void* ids = nullptr;
    std::vector<TokenRun> runs;
    std::vector<std::uint32_t> chosen;  // [expert]; empty if they are not counted
    std::vector<Rows> touching;
  };

  /// Keeps nothing unless `keeps`.
  explicit KnownChoices(bool keeps);
  ~KnownChoices();
  KnownChoices(const KnownChoices&) = delete;
  KnownChoices& operator=(const KnownChoices&) = delete;

  /// What is known of a rank with these tokens; nothing if nothing is kept.
  static OfRank* find(const void* ids, const std::vector<TokenRun>& runs);

 private:
  KnownChoices* before_;
  std::unordered_map<std::int64_t, OfRank> ranks_;  // by their first token
};

}  // namespace moesim
