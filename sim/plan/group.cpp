// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/group.h"

namespace moesim {

Group::Group() {
  static const auto nobody = std::make_shared<const std::vector<GpuId>>();
  gpus_ = nobody;
}

bool Group::meets(const Group& other) const {
  if (gpus_ == other.gpus_) return !empty();
  if (size() > other.size()) return other.meets(*this);
  if (size() == 1) return other.contains(front());
  std::size_t i = 0, j = 0;
  while (i < size() && j < other.size()) {
    if ((*this)[i] == other[j]) return true;
    (*this)[i] < other[j] ? ++i : ++j;
  }
  return false;
}

}  // namespace moesim
