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
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for (int k = 0; choices >> k != 0; ++k) {
      if ((choices >> k & 1) != 0) hops.add(target[k], Choices{1} << k);
    }
  }
};

}  // namespace

std::unique_ptr<Dispatch> make_alltoall(const DispatchContext&) {
  return std::make_unique<Evaluated<AllToAll>>(AllToAll{});
}

}  // namespace moesim
