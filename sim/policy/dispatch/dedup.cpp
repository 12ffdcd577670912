// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all with token deduplication: one copy per token and destination GPU.
// HD1 of HierMoE (arXiv 2508.09591), collaborative communication of Occult (arXiv 2505.13345).
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class Dedup {
 public:
  explicit Dedup(Communicators groups) : groups_(std::move(groups)) {}
  int phases() const { return 1; }
  std::string phase_name(int) const { return "alltoall"; }
  const Communicators& communicators(int) const { return groups_; }
  template <class Hops>
  void next(int, GpuId, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) { hops.merge(target[k], Choices{1} << k); });
  }

 private:
  Communicators groups_;
};

}  // namespace

DispatchMaker read_dedup(const YamlMap&) {
  return [](const DispatchContext& c) {
    return std::make_unique<Evaluated<Dedup>>(Dedup(runs_of(c.topology.gpu_count(), c.ep)));
  };
}

}  // namespace moesim
