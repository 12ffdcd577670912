// SPDX-License-Identifier: Apache-2.0
// Counts of choices in place of tokens: what recorders keep if routes are too many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/import_sink.h"
#include "sim/import/routed_pass.h"

namespace moesim {

/// Whose tokens were counted together.
enum class CountedSource {
  rank,      // that a rank held
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
  bool of_all_layers = false;    // the file's layers are all of the model, its dense ones empty
  std::vector<int> places = {};  // of the layers in the file; empty: all from 0 on

  bool empty() const;
  bool empty(std::size_t layer) const;
};

/// One pass per source, whose rows have the counts' loads and nothing else of the recording: choice
/// c of a layer, experts in ascending order, goes to token (c s) mod T of T, s coprime to T and
/// near 0.618 T, so that every part of the tokens has the loads of all. Each expert comes at most
/// once to a token. Throws Error if the counts of a source are not T x top_k in every layer.
std::vector<RoutedPass> deal(const CountedStep& step, int top_k);

/// Whether the counts of each source are of whole tokens with so many different experts.
bool can_be_dealt(const CountedStep& step, int top_k);

/// Deals a step and hands it over, less the layers that are dense in the model. Throws Error if
/// these have counts.
void add_counts(CountedStep step, ImportSink& sink);

/// Counts [step][layer][expert] or [step][layer][source][expert]; `number` is that of the next
/// step.
void add_count_array(const NpyArray& array, ImportSink& sink, std::int64_t& number,
                     bool of_all_layers);

/// An element of an array of counts of any type. Throws Error for what is not a whole number.
std::int64_t count_at(const NpyArray& array, std::int64_t i);

/// Counts are of so many experts. Throws Error if the model has others.
void check_expert_count(std::int64_t found, ImportSink& sink, const std::string& where);

}  // namespace moesim
