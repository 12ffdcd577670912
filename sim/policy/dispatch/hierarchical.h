// SPDX-License-Identifier: Apache-2.0
// The mechanism of HD-d and H-d, which other dispatches build upon.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/policy/evaluate.h"
#include "sim/policy/hierarchy.h"

namespace moesim {

/// Outside-in: at level i a row goes to the GPU of the target's group that has the holder's index.
/// Lin et al., arXiv 2508.09591, sections 1.1 and 1.2.
class Hierarchical {
 public:
  Hierarchical(const Hierarchy& hierarchy, int depth, bool dedup)
      : hierarchy_(hierarchy), depth_(depth), dedup_(dedup) {}

  int phases() const { return depth_; }
  std::string phase_name(int phase) const {
    return phase + 1 < depth_ ? fmt::format("inter-{}", phase + 1)
                              : fmt::format("intra-{}", depth_ - 1);
  }
  const Communicators& communicators(int phase) const {
    return phase + 1 < depth_ ? hierarchy_.inter(phase + 1) : hierarchy_.groups(depth_ - 1);
  }

  bool merges() const { return dedup_; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const GpuId to =
          phase + 1 < depth_ ? hierarchy_.relay(phase + 1, holder, target[k]) : target[k];
      if (dedup_) {
        hops.merge(to, Choices{1} << k);
      } else {
        hops.add(to, Choices{1} << k);
      }
    });
  }

 private:
  Hierarchy hierarchy_;
  int depth_;
  bool dedup_;
};

}  // namespace moesim
