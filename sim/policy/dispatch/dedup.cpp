// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all with token deduplication: one copy per token and destination GPU.
// HD1 of HierMoE (arXiv 2508.09591), collaborative communication of Occult (arXiv 2505.13345).
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

struct Dedup {
  int phases() const { return 1; }
  std::string phase_name(int) const { return "alltoall"; }
  template <class Hops>
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) { hops.merge(target[k], Choices{1} << k); });
  }
};

}  // namespace

std::unique_ptr<Dispatch> make_dedup(const DispatchContext&) {
  return std::make_unique<Evaluated<Dedup>>(Dedup{});
}

}  // namespace moesim
