// SPDX-License-Identifier: Apache-2.0
#include "sim/report/token_needs.h"

#include <bit>
#include <utility>

#include "sim/base/sort_once.h"

namespace moesim {

std::map<int, std::vector<TokenNeeds>> needs_by_layer(const Plan& plan) {
  struct Journey {
    GpuId source;
    std::map<int, GpuId> holder;  // by choice
  };
  std::map<int, std::map<TokenId, Journey>> layers;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || op.key.stage != Stage::dispatch ||
        op.key.pass != Pass::forward) {
      continue;
    }
    auto& journeys = layers[op.key.layer];
    for (const RowMove& row : op.exchange()->rows) {
      if (row.choices == 0) continue;  // nobody needs it
      Journey& journey = journeys.try_emplace(row.token, Journey{row.from, {}}).first->second;
      for (Choices left = row.choices; left != 0; left &= left - 1) {
        journey.holder[std::countr_zero(left)] = row.to;
      }
    }
  }
  std::map<int, std::vector<TokenNeeds>> needs;
  for (const auto& [layer, journeys] : layers) {
    for (const auto& [token, journey] : journeys) {
      TokenNeeds need{journey.source, {}};
      for (const auto& [choice, gpu] : journey.holder) {
        if (gpu != journey.source) need.targets.push_back(gpu);
      }
      sort_once(need.targets);
      if (!need.targets.empty()) needs[layer].push_back(std::move(need));
    }
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
