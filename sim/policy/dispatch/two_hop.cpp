// SPDX-License-Identifier: Apache-2.0
// 2DH of Tutel (microsoft/tutel at 82af7aa, Hwang et al., arXiv 2206.03382): its native collective
// goes inside the node first, its Python one (PrimAllToAll2D) across nodes first. DeepSpeed-MoE's
// hierarchical all-to-all (Rajbhandari et al., arXiv 2201.05596) is the former.
#include "sim/policy/dispatch/two_hop.h"

#include <fmt/format.h>

#include "sim/policy/evaluate.h"
#include "sim/policy/hierarchy.h"
#include "sim/policy/policies.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

constexpr int node_level = 1;

class TwoHop {
 public:
  TwoHop(const Hierarchy& hierarchy, HopOrder order, bool padded)
      : hierarchy_(hierarchy), order_(order), padded_(padded) {}
  int phases() const { return 2; }
  std::string phase_name(int phase) const { return inside(phase) ? "intra" : "inter"; }
  const Communicators& communicators(int phase) const {
    return inside(phase) ? hierarchy_.groups(node_level) : hierarchy_.inter(node_level);
  }
  /// The relay is the copy between the hops. Equal parts are copied once more, before the hop
  /// inside the node or after it; exact rows are gathered in the right order to begin with.
  LocalWork local_work() const {
    LocalWork work;
    work.transpose_sent = padded_ && order_ == HopOrder::intra_first;
    work.transpose_arrived = padded_ && order_ == HopOrder::inter_first;
    return work;
  }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const GpuId to = phase == 1 ? target[k]
                       : order_ == HopOrder::intra_first
                           ? hierarchy_.relay(node_level, target[k], holder)
                           : hierarchy_.relay(node_level, holder, target[k]);
      hops.add(to, Choices{1} << k);
    });
  }

 private:
  bool inside(int phase) const { return (phase == 0) == (order_ == HopOrder::intra_first); }

  Hierarchy hierarchy_;
  HopOrder order_;
  bool padded_;
};

bool equal_nodes(const Hierarchy& hierarchy) {
  return hierarchy.depth() >= 2 && hierarchy.uniform();
}

}  // namespace

bool has_two_hops(const DispatchContext& context) {
  return equal_nodes(Hierarchy(context.topology, context.ep));
}

std::unique_ptr<Dispatch> two_hops(const DispatchContext& context, HopOrder order,
                                   const Padding& padding) {
  const Hierarchy hierarchy(context.topology, context.ep);
  if (!equal_nodes(hierarchy)) {
    throw Unsuitable(
        fmt::format("'two-hop' needs nodes of equal size: the {} ranks on '{}' do not nest so",
                    context.ep, context.topology.name()),
        "moesim topology show prints the levels");
  }
  const bool padded = padding.kind != Padding::Kind::none;
  return pad(std::make_unique<Evaluated<TwoHop>>(TwoHop(hierarchy, order, padded)), padding,
             context.ep);
}

// order: intra-first or inter-first; padding: none, capacity (rule, factor) or max.
DispatchMaker read_two_hop(const YamlMap& params) {
  const auto order =
      static_cast<HopOrder>(params.choice("order", {"intra-first", "inter-first"}, 0));
  const Padding padding = read_padding(params, Padding::Kind::none);
  return [=](const DispatchContext& context) { return two_hops(context, order, padding); };
}

}  // namespace moesim
