// SPDX-License-Identifier: Apache-2.0
// Counts of choices in place of tokens: what recorders keep where routes are too many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/trace/import/import_sink.h"
#include "sim/trace/import/routed_pass.h"

namespace moesim {

/// Whose tokens were counted together.
enum class CountedSource {
  rank,      // those that a rank held
  sequence,  // those of a request, on any rank
  unknown    // any rank may hold any of them
};

/// How often the tokens of each source chose each expert in one step.
struct CountedStep {
  std::string where;                                                // for messages
  std::optional<std::int64_t> number = {};                          // as in RoutedPass
  std::vector<int> layers = {};                                     // as in RoutedPass
  std::vector<std::vector<std::vector<std::int64_t>>> counts = {};  // [layer][source][expert]
  CountedSource source = CountedSource::rank;

  bool empty() const;
};

/// One pass per source, whose rows have the counts' loads and nothing else of the recording: choice
/// c of a layer, experts in ascending order, goes to token (c s) mod T of T, s coprime to T and
/// near 0.618 T, so that every part of the tokens has the loads of all. Each expert comes at most
/// once to a token. Throws Error where the counts of a source are not T x top_k in every layer.
std::vector<RoutedPass> deal(const CountedStep& step, int top_k);

/// Deals a step and hands it over, less the layers that are dense in the model. Throws Error where
/// these have counts.
void add_counts(CountedStep step, ImportSink& sink);

/// An element of an array of counts of any type. Throws Error for what is no whole number.
std::int64_t count_at(const NpyArray& array, std::int64_t i);

/// Throws Error unless counts are of so many experts as the model has.
void check_counted_experts(std::int64_t found, const ImportSink& sink, const std::string& where);

}  // namespace moesim
