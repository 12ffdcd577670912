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

bool KeptRoutes::begin(const Assignment& assignment, std::size_t ids, std::size_t groups) {
  constexpr std::size_t most = 1 << 18;  // ranks x ids, some 40 bytes each for a hop
  const auto ranks = static_cast<std::size_t>(assignment.placement().gpus());
  if (ranks * ids * groups > most) return false;
  if (of_layer_ && ids_ == ids && *of_layer_ == assignment) {
    of_.resize(ranks);
    return true;
  }
  of_layer_ = assignment;
  ids_ = ids;
  of_.clear();
  return false;
}

}  // namespace moesim
