// SPDX-License-Identifier: Apache-2.0
#include "sim/report/token_needs.h"

#include <array>
#include <bit>
#include <utility>

#include "sim/base/sort_once.h"

namespace moesim {

namespace {

/// Where the choices of a layer's tokens end, row by row.
class Journeys {
 public:
  void add(const RowMove& row) {
    const std::size_t token = row.token.index();
    if (token >= of_token_.size()) of_token_.resize(token + 1);
    Journey& journey = of_token_[token];
    if (journey.ended == 0) journey.source = row.from;
    journey.ended |= row.choices;
    for (Choices left = row.choices; left != 0; left &= left - 1) {
      journey.holder[static_cast<std::size_t>(std::countr_zero(left))] = row.to;
    }
  }
  std::vector<TokenNeeds> needs() const {
    std::vector<TokenNeeds> needs;
    for (const Journey& journey : of_token_) {
      TokenNeeds need{journey.source, {}};
      for (Choices left = journey.ended; left != 0; left &= left - 1) {
        const GpuId holder = journey.holder[static_cast<std::size_t>(std::countr_zero(left))];
        if (holder != journey.source) need.targets.push_back(holder);
      }
      if (need.targets.empty()) continue;
      sort_once(need.targets);
      needs.push_back(std::move(need));
    }
    return needs;
  }

 private:
  struct Journey {
    GpuId source;
    Choices ended = 0;  // that rows have brought somewhere
    std::array<GpuId, max_top_k> holder;
  };
  std::vector<Journey> of_token_;  // [token] numbered from 0 on in a plan
};

}  // namespace

std::map<int, std::vector<TokenNeeds>> needs_by_layer(const Plan& plan) {
  std::map<int, Journeys> layers;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || op.key.stage != Stage::dispatch ||
        op.key.pass != Pass::forward) {
      continue;
    }
    Journeys& journeys = layers[op.key.layer];
    for (const RowMove& row : op.exchange()->rows) {
      if (row.choices != 0) journeys.add(row);  // else nobody needs it
    }
  }
  std::map<int, std::vector<TokenNeeds>> needs;
  for (const auto& [layer, journeys] : layers) {
    auto of_layer = journeys.needs();
    if (!of_layer.empty()) needs[layer] = std::move(of_layer);
  }
  return needs;
}

std::vector<TokenNeeds> needs_of(const Plan& plan) {
  auto layers = needs_by_layer(plan);
  return layers.empty() ? std::vector<TokenNeeds>() : std::move(layers.begin()->second);
}

Bytes row_bytes(const Exchange& exchange) {
  if (exchange.padded) return exchange.traffic.unit();
  return Bytes(exchange.traffic.total().value / std::ssize(exchange.rows));
}

}  // namespace moesim
