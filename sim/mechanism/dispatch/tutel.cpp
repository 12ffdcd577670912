// SPDX-License-Identifier: Apache-2.0
// All-to-alls of equal parts, and Tutel's choice between the flat one and 2DH (microsoft/tutel at
// 82af7aa; Hwang et al., arXiv 2206.03382).
#include <memory>

#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/dispatch/padding.h"
#include "sim/mechanism/dispatch/two_hop.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

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
