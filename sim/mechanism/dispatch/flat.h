// SPDX-License-Identifier: Apache-2.0
// The mechanism of dispatches that go straight to the target GPU in one phase.
#pragma once

#include <memory>

#include "sim/mechanism/evaluate.h"

namespace moesim {

/// One copy per token and choice, or with `dedup` one per token and GPU, among all ranks.
/// A template parameter, because the bulk count asks once per choice.
template <bool dedup>
class Flat {
 public:
  explicit Flat(const RankSpace& ranks) : all_(ranks.all()) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    shape.add("alltoall", all_);
    return shape;
  }

  bool merges() const { return dedup; }
  template <class Hops>
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      if constexpr (dedup) {
        hops.merge(target[k], Choices{1} << k);
      } else {
        hops.add(target[k], Choices{1} << k);
      }
    });
  }

 protected:
  const Communicators& all() const { return all_; }

 private:
  Communicators all_;
};

/// A copy per token and choice.
std::unique_ptr<Dispatch> flat_alltoall(const DispatchContext& context);

}  // namespace moesim
