// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/group.h"

#include "sim/plan/waits.h"

namespace moesim {

Group::Group() {
  static const auto nobody = std::make_shared<const std::vector<GpuId>>();
  gpus_ = nobody;
}

bool Group::meets(const Group& other) const {
  if (gpus_ == other.gpus_) return !empty();
  if (size() > other.size()) return other.meets(*this);
  if (other.has_no_gaps()) {
    const std::size_t first = first_from(other.front());
    return first < size() && (*this)[first] <= other.back();
  }
  if (is_far_smaller(*this, other)) {
    return std::ranges::any_of(*this, [&](GpuId gpu) { return other.contains(gpu); });
  }
  std::size_t i = 0, j = 0;
  while (i < size() && j < other.size()) {
    if ((*this)[i] == other[j]) return true;
    (*this)[i] < other[j] ? ++i : ++j;
  }
  return false;
}

}  // namespace moesim
