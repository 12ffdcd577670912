// SPDX-License-Identifier: Apache-2.0
// By how much policies pad rows, for the notes of a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/mechanism/dispatch.h"

namespace moesim {

/// Sums over layers: rows of all phases, and choices computed, without padding and with it.
class PaddedRows {
 public:
  void add(const RowCounts& counts);
  /// Sentences whose subject is the policy; none if it pads little.
  std::vector<std::string> notes() const;

 private:
  std::int64_t exact_ = 0, on_wire_ = 0, choices_ = 0, computed_ = 0;
};

}  // namespace moesim
