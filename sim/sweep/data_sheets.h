// SPDX-License-Identifier: Apache-2.0
// Candidates whose exchanges of tokens have rates of data sheets where those of others do not. A
// data sheet takes nothing off, so that nobody knows which of the two is faster.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/sweep/row.h"

namespace moesim {

class DataSheets {
 public:
  /// Of the rows of these candidates.
  DataSheets(const std::map<std::int64_t, SweepRow>& rows, const std::vector<std::int64_t>& ids);

  /// "nic" of a row that has them, "" of all others.
  std::string links(const SweepRow& row) const;
  bool any() const { return !contested_.empty(); }

 private:
  std::set<std::string> contested_;  // classes of links for which candidates have both
};

}  // namespace moesim
