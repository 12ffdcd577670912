// SPDX-License-Identifier: Apache-2.0
// Pools of engines with the prices of their passes, and runs of deployments of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/run/engine_outcome.h"
#include "sim/run/pass_prices.h"
#include "sim/scenario/engine_run.h"
#include "sim/serving/deployment/serving_run.h"
#include "sim/serving/engine/price_table.h"
#include "sim/serving/requests/request_log.h"

namespace moesim {

/// What passes of one kind of instance cost. Several runs may share them.
class PoolPrices {
 public:
  /// The run must outlive it. Throws as PassPrices.
  PoolPrices(const PolicyRun& run, Fidelity fidelity, const EngineRun& asked, bool one_run);

  StepPrices& prices() { return exact_only_ ? static_cast<StepPrices&>(exact_) : table_; }
  PassPrices& exact() { return exact_; }
  int gpus() const { return gpus_; }            // of an instance
  int ranks() const { return exact_.ranks(); }  // of its attention data parallelism
  /// Passes that were simulated for reuse, and how far reused prices were off.
  std::int64_t points() const { return table_.points(); }
  const PassErrors& errors() const { return table_.errors(); }
  bool exact_only() const { return exact_only_; }
  const PolicyRun& run() const { return run_; }
  /// Why the cluster cannot run the policy's kernels; empty: it can.
  std::string cannot_run() const { return exact_.cannot_run(); }

 private:
  const PolicyRun& run_;
  PassPrices exact_;
  PriceTable table_;
  bool exact_only_;
  int gpus_;
};

/// A scenario with requests, of one topology, policy and fidelity, opened with all that its prices
/// need. It stays where it is.
class OpenedPool {
 public:
  /// `routing`: one that the scenario asks for; `one_run`: no other run reuses its prices, so that
  /// its first passes may be exact. Throws as open_inputs and PoolPrices.
  explicit OpenedPool(Scenario scenario, RoutingSource routing = RoutingSource::recorded,
                      bool one_run = false);
  OpenedPool(const OpenedPool&) = delete;
  OpenedPool& operator=(const OpenedPool&) = delete;

  const Scenario& scenario() const { return scenario_; }
  const Inputs& inputs() const { return inputs_; }
  const EngineRun& engine_run() const { return *scenario_.engine_run; }
  PoolPrices& prices() { return prices_; }

 private:
  Scenario scenario_;
  Inputs inputs_;
  std::vector<PolicyRun> runs_;
  PoolPrices prices_;
};

/// Some instances of a pool.
struct PoolInstances {
  PoolPrices* prices = nullptr;
  const EngineModel* engine = nullptr;
  int count = 1;
};

/// What happened, with the figures of memory of the instances that decode.
struct ServedPools {
  ServingRun run;
  int ranks = 0, gpus = 0;
  std::int64_t kv_tokens = 0;
  EngineBalancing balancing;
  Bytes moved;
};
/// Answers a log. `prompts` decode, too, unless `decode` does.
ServedPools serve(const EngineRun& asked, const PoolInstances& prompts,
                  const std::optional<PoolInstances>& decode, const RequestLog& log,
                  const JobProgress& progress);
/// The same as figures.
EngineOutcome run_pools(const EngineRun& asked, const PoolInstances& prompts,
                        const std::optional<PoolInstances>& decode, const RequestLog& log,
                        const JobProgress& progress);

}  // namespace moesim
