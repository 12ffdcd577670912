// SPDX-License-Identifier: Apache-2.0
// The mechanism of dispatches that go straight to the target GPU in one phase.
#pragma once

#include <string>
#include <utility>

#include "sim/policy/evaluate.h"

namespace moesim {

/// One copy per token and choice, or with `dedup` one per token and GPU, within every group.
/// A template parameter, since the bulk count asks once per choice.
template <bool dedup>
class Flat {
 public:
  Flat(Communicators groups, std::string phase_name)
      : groups_(std::move(groups)), phase_name_(std::move(phase_name)) {}
  int phases() const { return 1; }
  std::string phase_name(int) const { return phase_name_; }
  const Communicators& communicators(int) const { return groups_; }

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

 private:
  Communicators groups_;
  std::string phase_name_;
};

}  // namespace moesim
