// SPDX-License-Identifier: Apache-2.0
// 2DH of Tutel (microsoft/tutel at 82af7aa, Hwang et al., arXiv 2206.03382): its native collective
// goes inside the node first, its Python one (PrimAllToAll2D) across nodes first. DeepSpeed-MoE's
// hierarchical all-to-all (Rajbhandari et al., arXiv 2201.05596) is the former. Tutel exchanges
// linearly if there is one node, or one GPU per node.
#include "sim/mechanism/dispatch/two_hop.h"

#include <fmt/format.h>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/dispatch/metadata.h"
#include "sim/mechanism/dispatch/padding.h"
#include "sim/mechanism/evaluate.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class TwoHop {
 public:
  TwoHop(const RankSpace& ranks, HopOrder order, bool padded)
      : nodes_(ranks.hosts()), order_(order), padded_(padded) {}

  /// The relay is the copy between the hops. Equal parts are copied once more, before the hop
  /// inside the node or after it; exact rows are gathered in the right order to begin with.
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    const bool intra_first = order_ == HopOrder::intra_first;
    if (intra_first) shape.add("intra", nodes_.groups());
    shape.add("inter", nodes_.across());
    if (!intra_first) shape.add("intra", nodes_.groups());
    shape.local_work.transpose_sent = padded_ && intra_first;
    shape.local_work.transpose_arrived = padded_ && !intra_first;
    return shape;
  }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const GpuId to = phase == 1                        ? target[k]
                       : order_ == HopOrder::intra_first ? nodes_.relay(target[k], holder)
                                                         : nodes_.relay(holder, target[k]);
      hops.add(to, Choices{1} << k);
    });
  }

 private:
  RankLevel nodes_;
  HopOrder order_;
  bool padded_;
};

}  // namespace

bool has_two_hops(const DispatchContext& context) {
  const RankSpace nodes = context.groups.ranks(0).by_hosts();
  return nodes.depth() > 1 && nodes.uniform();
}

std::unique_ptr<Dispatch> two_hops(const DispatchContext& context, HopOrder order, bool padded) {
  const RankSpace nodes = context.groups.ranks(0).by_hosts();
  if (nodes.depth() == 1) return flat_alltoall(context);
  if (!nodes.uniform()) {
    throw Unsuitable(
        fmt::format("'two-hop' needs nodes of equally many ranks: those of {} on '{}' differ",
                    counted(context.groups.size(), "rank"), context.groups.cluster()),
        "moesim topology show prints the levels");
  }
  return in_every_group(context,
                        [&](const RankSpace& ranks) { return TwoHop(ranks, order, padded); });
}

// order: intra-first or inter-first; padding: none, capacity (rule, factor) or max; metadata: see
// read_metadata.
DispatchMaker read_two_hop(const YamlMap& params) {
  const auto order =
      static_cast<HopOrder>(params.choice("order", {"intra-first", "inter-first"}, 0));
  const Padding padding = read_padding(params, Padding::Kind::none);
  const DispatchMetadata metadata = read_metadata(params);
  return [=](const DispatchContext& context) {
    auto dispatch = two_hops(context, order, padding.kind != Padding::Kind::none);
    pad(*dispatch, padding);
    add_metadata(*dispatch, metadata, context, false);
    return dispatch;
  };
}

}  // namespace moesim
