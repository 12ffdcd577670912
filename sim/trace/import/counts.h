// SPDX-License-Identifier: Apache-2.0
// Counts of choices in place of tokens: what recorders keep where routes are too many.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/import/routed_pass.h"

namespace moesim {

/// How often the tokens of each source chose each expert in one step.
struct CountedStep {
  std::string where;  // for messages
  std::int64_t number = 0;
  std::vector<int> layers = {};                                // as in RoutedPass
  std::vector<std::vector<std::vector<std::int64_t>>> counts;  // [layer][source][expert]
  bool sources_known = true;  // they are ranks; otherwise any rank may hold any of the tokens
};

/// One pass per source, whose rows have the counts' loads and nothing else of the recording: choice
/// c of a layer, experts in ascending order, goes to token (c s) mod T of T, s coprime to T and
/// near 0.618 T, so that every part of the tokens has the loads of all. Each expert comes at most
/// once to a token. Throws Error where the counts of a source are not T x top_k in every layer.
std::vector<RoutedPass> deal(const CountedStep& step, int top_k);

}  // namespace moesim
