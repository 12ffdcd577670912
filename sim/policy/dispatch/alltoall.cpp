// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all without deduplication: one copy per token and choice.
// NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher.
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

struct AllToAll {
  int phases() const { return 1; }
  std::string phase_name(int) const { return "alltoall"; }
  template <class Hops>
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) { hops.add(target[k], Choices{1} << k); });
  }
};

}  // namespace

std::unique_ptr<Dispatch> make_alltoall(const DispatchContext&) {
  return std::make_unique<Evaluated<AllToAll>>(AllToAll{});
}

}  // namespace moesim
