// SPDX-License-Identifier: Apache-2.0
// Engines that answer a log of requests: several instances behind a router, or pools that compute
// prompts and decode apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/serving/deployment/kv_transfers.h"
#include "sim/serving/deployment/serving_run.h"
#include "sim/serving/engine/engine_options.h"
#include "sim/serving/engine/step_prices.h"
#include "sim/serving/requests/request_log.h"

namespace moesim {

struct ServingPool {
  EngineOptions engine;
  int instances = 1;
  StepPrices* prices = nullptr;
};

/// Ranks are lost at once: the pass in progress is, too, and their sequences start again on other
/// ranks.
struct RankLoss {
  Seconds at{};
  int instance = 0, rank = 0;   // the first rank
  Seconds recovery{};           // in which the instance runs no pass: mask ranks, place anew
  std::optional<Seconds> back;  // after `at` the ranks take requests again
  int ranks = 1;                // as of a node
  bool decodes = false;         // the instance is one of `decode`
};

/// Losses of all instances as a Poisson process: each of their parts of `ranks` consecutive ranks,
/// such as a node, is lost after `between` on average.
struct LossRate {
  Seconds between{}, recovery{}, back{};
  int ranks = 1;
  std::uint64_t seed = 1;
};

struct Deployment {
  ServingPool pool;                   // computes prompts, and decodes unless `decode` does
  std::optional<ServingPool> decode;  // disaggregated: needs `transfers`
  RouterOptions router;               // among the instances of a pool
  KvTransfers* transfers = nullptr;
  std::vector<RankLoss> losses;
  std::optional<LossRate> loss_rate;  // more of them, drawn
  std::int64_t warmup = 0;            // first requests of the log, whose gaps do not count
};

/// Runs until all requests are finished. `progress` gets the share of requests that are; it may
/// throw to end the run. Throws Error for a request that no rank can hold, and for options that
/// contradict each other.
ServingRun run_serving(const Deployment& deployment, const RequestLog& log,
                       const std::function<void(double)>& progress = {});

}  // namespace moesim
