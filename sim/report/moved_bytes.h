// SPDX-License-Identifier: Apache-2.0
// What exchanges move, by layer: how far, and over which links.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/plan/priced.h"
#include "sim/report/metrics.h"

namespace moesim {

/// Exchanges of one price move the same bytes between the same GPUs, as those of microbatches that
/// replay others do: they are counted, and looked at once.
class MovedBytes {
 public:
  /// The plan must outlive it.
  explicit MovedBytes(const PricedPlan& plan) : plan_(plan), moved_(plan.prices().size()) {}

  void add(OpId exchange, int times = 1);
  /// Adds them to the layers' traffic, migrated bytes and link bytes; begins anew. Throws
  /// std::logic_error if bytes are not on the links that they need.
  void add_to(std::map<int, LayerMetrics>& layers);

 private:
  /// Exchanges of one price that count for the same.
  struct Moved {
    OpId first;
    int layer;
    bool tokens, migrates;
    std::int64_t times;
  };

  const PricedPlan& plan_;
  std::vector<std::vector<Moved>> moved_;  // [price]
};

}  // namespace moesim
