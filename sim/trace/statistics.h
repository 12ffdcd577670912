// SPDX-License-Identifier: Apache-2.0
// Statistics of a trace: load skew, co-activation, locality in space and time. They say which
// policies the trace can tell apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// One measure of every layer.
struct PerLayer {
  std::vector<double> layers;
  double mean() const;
  double max() const;
};

/// Experts in contiguous blocks on `ranks` ranks: rank(e) = e / (experts / ranks).
struct RankStatistics {
  int ranks = 0;
  double distinct_ranks = 0;    // different ranks among a token's experts, mean over tokens, layers
  PerLayer rank_max_over_mean;  // load of the fullest rank over the mean load
};

/// Two experts of one layer and how often one token chose both.
struct ExpertPair {
  int layer = 0;  // model layer number
  int a = 0;
  int b = 0;  // > a
  std::int64_t tokens = 0;
  double share = 0;  // tokens / all tokens of the layer
  double lift = 0;   // share / the share of independent choices with the same loads
};

/// How alike the loads of two successive recorded steps are, mean over layers; 1: the same
/// distribution.
struct StepSimilarity {
  std::int64_t from = 0;  // step numbers
  std::int64_t to = 0;
  double cosine = 0;
  double shared_load = 0;  // sum over experts of the smaller share
};

struct TraceStatistics {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t shortest_sequence = 0;
  double median_sequence = 0;
  std::int64_t longest_sequence = 0;
  std::vector<std::int64_t> tokens_of_source_rank;  // empty when no step records source ranks
  std::vector<std::vector<std::int64_t>> counts;    // [layer][expert]: ids, over all steps
  std::string counts_crc32;                         // over counts as little-endian uint32
  std::string counts_fnv1a64;                       // both empty when a count exceeds 32 bits
  PerLayer expert_max_over_mean;
  PerLayer expert_load_cv;          // standard deviation over mean
  PerLayer previous_token_overlap;  // share of a token's experts that the token before it chose
  double uniform_overlap = 0;       // top_k / experts: the overlap of independent uniform choices
  std::vector<RankStatistics> ranks;
  std::vector<ExpertPair> strongest_pairs;  // by lift, over all layers
  PerLayer top_pairs_share;                 // share of all pairs held by the strongest 1 % of pairs
  std::vector<StepSimilarity> step_similarity;
};

struct StatisticsOptions {
  std::vector<int> ranks = {};  // each must divide the experts; default: 2, 4, 8 ... 64 that do
  int pairs = 5;                // how many of the strongest pairs to name
};

/// Reads every id once. Throws Error for ranks that do not divide the experts and for ids out of
/// range.
TraceStatistics measure(const RoutingTrace& trace, const StatisticsOptions& options = {},
                        const TraceProgress& progress = {});

/// The statistics as a page of text, and all of them as JSON.
std::string statistics_text(const RoutingTrace& trace, const TraceStatistics& statistics);
std::string statistics_json(const RoutingTrace& trace, const TraceStatistics& statistics);

}  // namespace moesim
