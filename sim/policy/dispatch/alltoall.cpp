// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all without deduplication: one copy per token and choice.
// NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher.
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class AllToAll {
 public:
  explicit AllToAll(Communicators groups) : groups_(std::move(groups)) {}
  int phases() const { return 1; }
  std::string phase_name(int) const { return "alltoall"; }
  const Communicators& communicators(int) const { return groups_; }
  template <class Hops>
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) { hops.add(target[k], Choices{1} << k); });
  }

 private:
  Communicators groups_;
};

}  // namespace

DispatchMaker read_alltoall(const YamlMap&) {
  return [](const DispatchContext& c) {
    return std::make_unique<Evaluated<AllToAll>>(AllToAll(runs_of(c.topology.gpu_count(), c.ep)));
  };
}

}  // namespace moesim
