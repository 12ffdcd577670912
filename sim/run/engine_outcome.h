// SPDX-License-Identifier: Apache-2.0
// Figures of a run of an engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/token_costs.h"
#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/engine/price_table.h"

namespace moesim {

/// What lost ranks cost.
struct EngineLosses {
  std::int64_t losses = 0;     // of ranks at once
  std::int64_t restarted = 0;  // requests, as often as they lost keys and values
  std::int64_t kv_tokens = 0;  // of these
  Seconds time{};              // of passes that broke, and of recoveries, of all instances
  /// Least tokens of a rank that experts of lost ones left; no_limit: all.
  std::int64_t kv_left = no_limit;
  std::int64_t in_vain = 0;  // more losses, of which all ranks were lost already
};

/// How experts moved of a policy that places them by their loads.
struct EngineBalancing {
  bool from_loads = false;    // it is one
  bool told = false;          // the engine says when
  bool planned = false;       // by steps before the run
  std::int64_t interval = 0;  // passes between two moves; 0: none moves in the run
  bool stall_stated = false;  // else it is what moving them takes
  std::int64_t plans = 0;     // in the run, over all instances,
  std::int64_t moves = 0;     // and how many of them moved experts
  Seconds stall{};            // of passes with a plan, on average over the moves if there are any
  bool never_planned() const { return from_loads && !planned && plans == 0; }
};

/// What a worker hands back of a run.
struct EngineOutcome {
  ServingMetrics metrics;
  std::vector<ServingSample> samples;  // thinned
  int ranks = 0, gpus = 0;             // of attention data parallelism per instance; of all
  std::int64_t kv_tokens = 0;          // that a rank has room for; no_limit: the model does not say
  std::int64_t simulated = 0;          // passes
  PassErrors errors;                   // of reused prices
  std::int64_t moved_requests = 0;
  Bytes moved;  // keys and values between pools
  EngineLosses losses;
  TokenCosts costs;  // of tokens that were generated, on all GPUs
  /// "price of the GPUs that decode": costs that only the other pool states, so that there are
  /// none.
  std::string costs_not_stated = {};
  EngineBalancing balancing;
  std::string kernels_note = {};  // of kernels that are not for passes as large
  std::string cannot_run = {};    // why the cluster cannot run a pool's kernels; empty: it can
  std::string unsuitable = {};
};

}  // namespace moesim
