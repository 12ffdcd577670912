// SPDX-License-Identifier: Apache-2.0
// What of a plan waits for what: exchanges, and kernels on each of their GPUs.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// A part of an op that starts and ends by itself.
using PartId = Id<struct PartTag>;

/// The parts of a plan's ops: an exchange is one, which its GPUs start together, or one per
/// collective apart; a kernel op has one per member. Needs the plan's ids in range and no cycles.
class PartGraph {
 public:
  explicit PartGraph(const Plan& plan);

  std::size_t size() const { return op_.size(); }
  /// The part of an op that runs on its member.
  PartId part(OpId op, std::size_t member) const {
    const std::int64_t first = first_[op.index()].value;
    if (plan_[op].exchange() == nullptr) return PartId(first + static_cast<std::int64_t>(member));
    return PartId(first + plan_[op].place_of(member).collective);
  }
  OpId op(PartId part) const { return op_[part.index()]; }
  /// Parts that a part waits for; some may be listed twice.
  const std::vector<PartId>& before(PartId part) const { return before_[part.index()]; }
  const std::vector<std::vector<PartId>>& before() const { return before_; }  // [part]
  /// Every part behind the parts that it waits for.
  const std::vector<PartId>& order() const { return order_; }

 private:
  const Plan& plan_;
  std::vector<PartId> first_;                // [op]
  std::vector<OpId> op_;                     // [part]
  std::vector<std::vector<PartId>> before_;  // [part]
  std::vector<PartId> order_;
};

}  // namespace moesim
