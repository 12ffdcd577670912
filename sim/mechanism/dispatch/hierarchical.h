// SPDX-License-Identifier: Apache-2.0
// The mechanism of HD-d and H-d, which other dispatches build upon.
#pragma once

#include <fmt/format.h>

#include "sim/mechanism/evaluate.h"

namespace moesim {

/// Outside-in: at level i a row goes to the GPU of the target's group that has the holder's index.
/// Lin et al., arXiv 2508.09591, sections 1.1 and 1.2.
class Hierarchical {
 public:
  Hierarchical(const RankSpace& ranks, int depth, bool dedup)
      : ranks_(ranks), depth_(depth), dedup_(dedup) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    for (int level = 1; level < depth_; ++level) {
      shape.add(fmt::format("inter-{}", level), ranks_.level(level).across());
    }
    shape.add(fmt::format("intra-{}", depth_ - 1), ranks_.level(depth_ - 1).groups());
    return shape;
  }

  bool merges() const { return dedup_; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const GpuId to =
          phase + 1 < depth_ ? ranks_.level(phase + 1).relay(holder, target[k]) : target[k];
      if (dedup_) {
        hops.merge(to, Choices{1} << k);
      } else {
        hops.add(to, Choices{1} << k);
      }
    });
  }

 private:
  RankSpace ranks_;
  int depth_;
  bool dedup_;
};

}  // namespace moesim
