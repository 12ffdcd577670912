// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/route/row_sums.h"

#include "sim/base/add_up.h"

namespace moesim {

std::int64_t add_inbound(RowEntries entries, std::int64_t* inbound) {
  if (entries.empty()) return 0;
  const auto units = [&](std::size_t i) { return &entries[i].units; };
  if (is_gapless(entries)) {
    return add_up(entries.size(), units, inbound + entries.front().to.index(),
                  [](std::size_t i) { return i; });
  }
  return add_up(entries.size(), units, inbound,
                [&](std::size_t i) { return entries[i].to.index(); });
}

}  // namespace moesim
