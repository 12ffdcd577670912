// SPDX-License-Identifier: Apache-2.0
// Whether one op of a plan must have ended before another starts.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/part_graph.h"

namespace moesim {

/// Answers questions about the order of a plan without cycles.
class OpOrder {
 public:
  explicit OpOrder(const Plan& plan);
  /// Whether `b` on a GPU waits for `a` on that GPU, directly or through others. An exchange is on
  /// all its GPUs at once. Fast if one of them is a kernel.
  bool precedes(OpId a, OpId b, GpuId gpu);

 private:
  template <class Within>
  bool reaches(const std::vector<std::vector<PartId>>& edges, PartId start, PartId goal,
               Within within);

  const Plan& plan_;
  PartGraph graph_;
  std::vector<std::vector<PartId>> followers_;  // [part] the parts that wait for it
  std::vector<std::size_t> position_;           // [part] in the graph's order
  std::vector<std::uint32_t> seen_;             // [part] the last search that met it
  std::vector<PartId> open_;
  std::uint32_t search_ = 0;
};

}  // namespace moesim
