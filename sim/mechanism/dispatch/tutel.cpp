// SPDX-License-Identifier: Apache-2.0
// All-to-alls of equal parts, and Tutel's choice between the flat one and 2DH (microsoft/tutel at
// 82af7aa; Hwang et al., arXiv 2206.03382).
#include <fmt/format.h>

#include <memory>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/dispatch/metadata.h"
#include "sim/mechanism/dispatch/padding.h"
#include "sim/mechanism/evaluate.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

/// Which hop comes first: inside the node to the GPU with the target's index, or across to the
/// target's node.
enum class HopOrder { intra_first, inter_first };

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

/// Whether a dispatch's ranks form several nodes of equal size, more than a GPU each.
bool has_two_hops(const DispatchContext& context) {
  const RankSpace nodes = context.groups.ranks(0).by_hosts();
  return nodes.depth() > 1 && nodes.uniform();
}

/// Two hops; `padded`: with the copies that bring equal parts into the order of a hop. On one node,
/// or on nodes of a GPU each, the flat exchange, as upstream. Throws Unsuitable if nodes differ.
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

Seconds predicted(const Dispatch& dispatch, const EpGroups& groups, Bytes row,
                  const LayerTokens& tokens) {
  return exchange_time(dispatch.count(tokens), dispatch.shape(), groups, row);
}

std::vector<std::unique_ptr<Dispatch>> flat_and_two_hops(const DispatchContext& context) {
  std::vector<std::unique_ptr<Dispatch>> all;
  all.push_back(flat_alltoall(context));
  if (has_two_hops(context)) all.push_back(two_hops(context, HopOrder::intra_first, true));
  return all;
}

/// Tutel looks the algorithm up by floor(capacity / 128), from trials. Ours predicts instead, for
/// every layer and step, the exchanges of both from the capacity, which every rank knows; the local
/// copies are left out. The flat one wins ties.
std::unique_ptr<Dispatch> adaptive(const DispatchContext& context, const Padding& padding) {
  auto algorithms = flat_and_two_hops(context), trials = flat_and_two_hops(context);
  for (auto& algorithm : algorithms) pad(*algorithm, padding);
  for (auto& trial : trials) count_equal_parts(*trial, padding);
  const std::shared_ptr tried = std::make_shared<const decltype(trials)>(std::move(trials));
  return std::make_unique<Dispatch>(
      std::move(algorithms),
      [tried, groups = context.groups, row = context.model.row_bytes()](const LayerTokens& tokens) {
        std::size_t best = 0;
        Seconds least = predicted(*tried->front(), groups, row, tokens);
        for (std::size_t a = 1; a < tried->size(); ++a) {
          const Seconds time = predicted(*(*tried)[a], groups, row, tokens);
          if (time < least) best = a, least = time;
        }
        return best;
      });
}

/// Without padding nothing is equal.
Padding read_equal_parts(const YamlMap& params) {
  Padding padding = read_padding(params, Padding::Kind::max);
  if (padding.kind != Padding::Kind::none) return padding;
  if (const auto value = params.find("padding")) {
    value->error("'" + value->path() + "' may not be none: the parts would not be equal",
                 "say max or capacity");
  }
  return padding;
}

}  // namespace

// padding: max (default) or capacity (rule, factor).
DispatchMaker read_padded(const YamlMap& params) {
  const Padding padding = read_equal_parts(params);
  return [=](const DispatchContext& context) {
    auto dispatch = flat_alltoall(context);
    pad(*dispatch, padding);
    return dispatch;
  };
}

// padding: max (default) or capacity (rule, factor).
DispatchMaker read_tutel(const YamlMap& params) {
  const Padding padding = read_equal_parts(params);
  return [=](const DispatchContext& context) { return adaptive(context, padding); };
}

}  // namespace moesim
