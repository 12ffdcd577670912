// SPDX-License-Identifier: Apache-2.0
// What tokens cost on a cluster that states prices and powers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "sim/topology/gpu_costs.h"

namespace moesim {

/// Costs of one step or iteration on all GPUs; none if the cluster does not state it.
struct TokenCosts {
  std::optional<double> dollars_per_million = {};  // tokens
  std::optional<double> joules = {};               // per token

  /// None of 0 tokens.
  static TokenCosts of(const GpuCosts& costs, int gpus, double seconds, double tokens);
};

/// Adds `usd_per_million_tokens` and `joules_per_token`, as far as there are any.
void add_costs(nlohmann::ordered_json& object, const TokenCosts& costs);

}  // namespace moesim
