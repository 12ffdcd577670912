// SPDX-License-Identifier: Apache-2.0
// Links that every exchange of a plan loads alike, of which only one is simulated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/priced.h"

namespace moesim {

/// What an exchange asks of a link, and of all links of its class.
struct ClassUse {
  std::uint32_t link_class;
  Seconds time;
};

/// Two links are of one class if every exchange asks the same time of both, or of neither: they are
/// always in the same state. Of classes that lie behind each other the narrowest is enough: a class
/// is left out if there is one of which all of its exchanges ask as much time or more.
class LinkClasses {
 public:
  explicit LinkClasses(const PricedPlan& plan);
  std::size_t count() const { return count_; }
  /// Once for each class that may be its last, of exchanges with this price (PricedPlan::price_of).
  std::span<const ClassUse> uses(std::size_t price) const {
    return std::span(uses_).subspan(first_[price], first_[price + 1] - first_[price]);
  }

 private:
  std::size_t count_ = 1;
  std::vector<std::size_t> first_;  // [price + 1] into the next
  std::vector<ClassUse> uses_;
};

}  // namespace moesim
