// SPDX-License-Identifier: Apache-2.0
#include "sim/report/token_costs.h"

#include <nlohmann/json.hpp>

namespace moesim {

TokenCosts TokenCosts::of(const GpuCosts& costs, int gpus, double seconds, double tokens) {
  if (tokens <= 0) return {};
  const double gpu_seconds_per_token = gpus * seconds / tokens;
  TokenCosts result;
  if (costs.dollars_per_hour) {
    result.dollars_per_million = *costs.dollars_per_hour / 3600 * gpu_seconds_per_token * 1e6;
  }
  if (costs.watts) result.joules = *costs.watts * gpu_seconds_per_token;
  return result;
}

void add_costs(nlohmann::ordered_json& object, const TokenCosts& costs) {
  if (costs.dollars_per_million) object["usd_per_million_tokens"] = *costs.dollars_per_million;
  if (costs.joules) object["joules_per_token"] = *costs.joules;
}

}  // namespace moesim
