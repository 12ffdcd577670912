// SPDX-License-Identifier: Apache-2.0
// Which GPUs must get which tokens, from what a plan delivers.
#pragma once

#include <map>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// A token that GPUs other than its own must get.
struct TokenNeeds {
  GpuId source;
  std::vector<GpuId> targets;  // ascending, each once, without the source; not empty
  bool operator==(const TokenNeeds&) const = default;
};

/// What the forward dispatch of a plan with explicit rows delivers, by layer. A token goes from
/// where its first row starts to where the last row of each choice ends. In the order of the
/// tokens; tokens that stay on their GPU are left out.
std::map<int, std::vector<TokenNeeds>> needs_by_layer(const Plan& plan);
/// Needs of a plan of one layer.
std::vector<TokenNeeds> needs_of(const Plan& plan);

/// Bytes of a token row of an exchange with explicit rows.
Bytes row_bytes(const Exchange& exchange);

}  // namespace moesim
