// SPDX-License-Identifier: Apache-2.0
// What happened in a serving run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/base/types.h"
#include "sim/serving/engine/instance.h"

namespace moesim {

struct RequestOutcome {
  Seconds arrival{};
  Seconds first{};   // end of the pass that gave the first token
  Seconds finish{};  // end of the pass that gave the last one
  std::int64_t input = 0, output = 0;
  std::int64_t emitted = 0;   // tokens given; all requests end with `output`
  std::int64_t finishes = 0;  // how often it was finished: once
};

/// An instance when a pass begins or ends, and when it takes a request in during one.
struct ServingSample {
  Seconds time{};
  int instance = 0;
  std::int64_t kv_tokens = 0;  // that its blocks in use have room for
  std::int64_t waiting = 0, running = 0;
};

/// What an instance and its ranks did.
struct InstanceSummary {
  bool decodes_only = false;  // of a disaggregated deployment
  InstanceCounts counts;
  RankCounts ranks;                 // of all ranks
  std::int64_t kv_tokens_most = 0;  // in use on its fullest rank
  std::int64_t kv_capacity = 0;     // tokens of a rank; no_limit: without bound
  int rank_count = 1;
  std::int64_t kv_left = 0;  // blocks that are in use after the run: none
};

/// Of an instance whose place among others is filled in later.
InstanceSummary summary_of(const ServingInstance& instance, const EngineOptions& engine);

struct ServingRun {
  std::vector<RequestOutcome> requests;  // as in the log
  /// Times between passes that gave tokens to a request, and how often each was; after the warm-up.
  std::map<double, std::int64_t> gaps;
  std::vector<ServingSample> samples;
  std::vector<InstanceSummary> instances;
  Seconds end{};
  std::int64_t moved_requests = 0;    // whose keys and values went to another instance
  std::int64_t broken_transfers = 0;  // of them, with a lost rank that still had to send them
  std::int64_t broken_tokens = 0;     // of their prompts
};

}  // namespace moesim
