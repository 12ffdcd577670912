// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/bulk_count.h"

namespace moesim {

void RouteCopies::clear() {
  for (const Copy& copy : copies_) newest_[copy.to.index()] = none;
  copies_.clear();
  before_.clear();
}

std::uint32_t RouteCopies::find(const Copy& copy) {
  std::uint32_t& newest = newest_[copy.to.index()];
  for (std::uint32_t c = newest; c != none; c = before_[c]) {
    if (copies_[c].of == copy.of) return c;
  }
  before_.push_back(newest);
  newest = static_cast<std::uint32_t>(copies_.size());
  copies_.push_back(copy);
  return newest;
}

}  // namespace moesim
