// SPDX-License-Identifier: Apache-2.0
// Ranks of a tensor-parallel group route the same tokens: their recordings repeat each other.
#pragma once

#include <optional>
#include <vector>

#include "sim/import/choice_table.h"

namespace moesim {

/// Remembers what the ranks of one pass have chosen.
class RepeatedRanks {
 public:
  /// Passes of another number are compared anew.
  void begin(std::int64_t pass);
  /// Whether an earlier rank of this pass has the same choices; keeps them otherwise.
  bool repeats(const ChoiceTable& ids);

 private:
  std::optional<std::int64_t> pass_;
  std::vector<ChoiceTable> seen_;
};

/// What the report calls such rows.
inline constexpr const char* repeated_rank_rows =
    "of ranks that repeat another's tokens (tensor parallelism)";

/// Whether two tables hold the same numbers.
bool same_choices(const ChoiceTable& a, const ChoiceTable& b);

}  // namespace moesim
