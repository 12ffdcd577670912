// SPDX-License-Identifier: Apache-2.0
// What planners with a performance model believe of the cluster.
#pragma once

#include <optional>

#include "sim/base/yaml.h"
#include "sim/mechanism/placer.h"

namespace moesim {

/// Rates that the parameters of a placement give, if they do.
struct PlannerRates {
  std::optional<BytesPerSecond> bandwidth;  // of one GPU
  std::optional<FlopsPerSecond> throughput;
};

/// Reads bandwidth and throughput.
PlannerRates read_planner_rates(const YamlMap& params);

/// Whose bytes the bandwidth of a GPU counts.
enum class CountedBytes { all_gpus, other_nodes };

/// The given bandwidth, else what one GPU gets from a uniform all-to-all of all EP groups at once,
/// latencies aside; with other_nodes only pairs on different hosts exchange, if a group has any.
BytesPerSecond bandwidth_of(const PlannerRates& given, const PlacementContext& context,
                            CountedBytes reach);

/// The given throughput, else peak x efficiency of the slowest GPU for the model's weights, as
/// shipped in models/gpu. Throws Unsuitable when a GPU has no peak for them.
FlopsPerSecond throughput_of(const PlannerRates& given, const PlacementContext& context);

/// The forward of one choice.
Seconds choice_time(const MoeModel& model, FlopsPerSecond throughput);

/// The forward of what a layer computes before its experts for that many tokens: projections of
/// attention and shared experts; attention scores are left out.
Seconds dense_time(const MoeModel& model, FlopsPerSecond throughput, double tokens);

/// Mean tokens per rank of a batch.
double mean_tokens(const Batch& batch);

}  // namespace moesim
