// SPDX-License-Identifier: Apache-2.0
// Why candidates cannot be, told once for all that differ only in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/sweep/row.h"

namespace moesim {

/// Reasons that say the same of other numbers.
struct SharedReason {
  int count = 0;
  std::string example;         // the one with the least shortfall of memory, else the first
  bool varies = false;         // others have other numbers
  std::int64_t candidate = 0;  // whose example it is
  /// "3 cannot be: WHY", "3 cannot be, such as: WHY".
  std::string text() const;
};

/// The most frequent first. Details in parentheses do not tell reasons apart.
std::vector<SharedReason> shared_reasons(const std::map<std::int64_t, SweepRow>& rows);

}  // namespace moesim
