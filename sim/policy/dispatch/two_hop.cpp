// SPDX-License-Identifier: Apache-2.0
// Two hops without deduplication: first inside the node to the GPU that has the target's index,
// then across nodes between equal indices. 2DH of Tutel (microsoft/tutel at 82af7aa, Hwang et al.,
// arXiv 2206.03382) and DeepSpeed-MoE's hierarchical all-to-all (Rajbhandari et al., arXiv
// 2201.05596), with exact row counts instead of capacity padding.
#include <fmt/format.h>

#include "sim/policy/evaluate.h"
#include "sim/policy/hierarchy.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

constexpr int node_level = 1;

class TwoHop {
 public:
  explicit TwoHop(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {}
  int phases() const { return 2; }
  std::string phase_name(int phase) const { return phase == 0 ? "intra" : "inter"; }
  const Communicators& communicators(int phase) const {
    return phase == 0 ? hierarchy_.groups(node_level) : hierarchy_.inter(node_level);
  }

  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      // The GPU of the holder's node that has the target's index.
      const GpuId to = phase == 0 ? hierarchy_.relay(node_level, target[k], holder) : target[k];
      hops.add(to, Choices{1} << k);
    });
  }

 private:
  Hierarchy hierarchy_;
};

}  // namespace

DispatchMaker read_two_hop(const YamlMap&) {
  return [](const DispatchContext& context) {
    const Hierarchy hierarchy(context.topology, context.ep);
    if (hierarchy.depth() < 2 || !hierarchy.uniform()) {
      throw Error(
          fmt::format("'two-hop' needs nodes of equal size: the {} ranks on '{}' do not nest "
                      "so",
                      context.ep, context.topology.name()),
          "moesim topology show prints the levels");
    }
    return std::make_unique<Evaluated<TwoHop>>(TwoHop(hierarchy));
  };
}

}  // namespace moesim
