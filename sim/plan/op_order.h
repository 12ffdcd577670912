// SPDX-License-Identifier: Apache-2.0
// Whether one op of a plan must have ended before another starts.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// Answers questions about the order of a plan without cycles.
class OpOrder {
 public:
  explicit OpOrder(const Plan& plan);
  /// Whether `b` waits for `a`, directly or through others. Fast where one of them is a kernel.
  bool precedes(OpId a, OpId b);

 private:
  template <class Within>
  bool reaches(const std::vector<std::vector<OpId>>& edges, OpId start, OpId goal, Within within);

  const Plan& plan_;
  std::vector<std::vector<OpId>> before_;
  std::vector<std::vector<OpId>> followers_;
  std::vector<std::size_t> position_;  // [op] in topological order
  std::vector<std::uint32_t> seen_;    // [op] the last search that met it
  std::vector<OpId> open_;
  std::uint32_t search_ = 0;
};

}  // namespace moesim
