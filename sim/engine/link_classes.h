// SPDX-License-Identifier: Apache-2.0
// Links that every exchange of a plan loads alike, of which only one is simulated.
#pragma once

#include <unordered_map>
#include <vector>

#include "sim/plan/priced.h"

namespace moesim {

/// What an exchange asks of a link, and of all links of its class.
struct ClassUse {
  std::size_t link_class;
  Seconds time;
};

/// Two links are of one class if every exchange asks the same time of both, or of neither: they are
/// always in the same state.
class LinkClasses {
 public:
  explicit LinkClasses(const PricedPlan& plan);
  std::size_t count() const { return count_; }
  /// Once for each class.
  const std::vector<ClassUse>& uses(const PricedExchange& exchange) const {
    return uses_.at(&exchange);
  }

 private:
  std::size_t count_ = 1;
  std::unordered_map<const PricedExchange*, std::vector<ClassUse>> uses_;
};

}  // namespace moesim
