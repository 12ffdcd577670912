// SPDX-License-Identifier: Apache-2.0
// The workloads W0 to W7 of the token-imbalance benchmark proposed for Megatron-LM (pull request
// 7488, September 2026), token for token as its generator draws them with PyTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/synth/synth.h"

namespace moesim {

/// In the benchmark's order, W0_balanced first.
enum class Workload {
  balanced,
  hot_expert_set,
  hot_rank,
  spread_hot_experts,
  source_ragged,
  zero_expert_rank,
  rotating_hotspot,
  burst
};

/// "W0_balanced" ... "W7_burst".
const std::vector<std::string>& workload_names();
/// By its name or by "W0" ... "W7". Throws Error.
Workload workload_of(const std::string& text);

/// Draws the steps of a workload. With E experts, top-k K and H = max(K, E / 4), token t of a step
/// draws K distinct experts, all sets alike, out of
///   W0  nothing: it takes experts K t, K t + 1 ... modulo E
///   W1, W2  the first H experts, every fourth token (t = 0, 4 ...) out of all
///   W3  the even experts, every fourth token out of all
///   W4  all; its sequences grow in length, the i-th in proportion to i
///   W5  the upper half
///   W6  H experts from H x (step / 3) on, modulo E, every fourth token out of all
///   W7  all; in each fourth step (3, 7 ...) every second token (t = 0, 2 ...) the first H
/// Gate weights are uniform from 0.5 to 1, then divided by their sum. Draws depend only on
/// workload, seed and step. Layer i of the trace has the seed + i, because the benchmark has one
/// layer.
class WorkloadSynthesis {
 public:
  /// Uses the options name, model, experts, top_k, layers, tokens, sequences, steps and seed.
  /// Throws Error for options that cannot be.
  WorkloadSynthesis(const SynthOptions& options, Workload workload);

  const TraceInfo& info() const { return info_; }
  /// The next step, numbered from 0.
  std::shared_ptr<const TraceStep> next_step(const TraceProgress& progress = {});

 private:
  SynthOptions options_;
  Workload workload_;
  TraceInfo info_;
  int step_ = 0;
};

}  // namespace moesim
