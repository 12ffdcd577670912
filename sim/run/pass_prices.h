// SPDX-License-Identifier: Apache-2.0
// Prices of an engine's passes: each is planned and simulated as a pass of serving is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/model/kv_cache.h"
#include "sim/plan/backend.h"
#include "sim/run/policy_run.h"
#include "sim/serving/engine/engine_reader.h"
#include "sim/serving/engine/step_prices.h"

namespace moesim {

/// Plans the first asked step of the trace with a batch in place of the scenario's, for one policy
/// at one fidelity. Requests play the recorded sequences of their numbers. Experts that move now
/// and then have moved before: the engine says when they do.
class PassPrices : public StepPrices {
 public:
  /// The run must outlive it. `engine` says which passes graphs run. Throws as PolicyPlanner.
  PassPrices(const PolicyRun& run, Fidelity fidelity, const EngineOptions& engine);
  ~PassPrices() override;

  StepPrice price(const ServingBatch& batch, bool eager) override;
  bool splits(const ServingBatch& batch) const override;
  StepPrice price_of(const ServingBatch& batch, bool eager, bool splits) override;
  /// The same where the batch itself says whether a graph runs it.
  StepPrice price(const ServingBatch& batch) { return price(batch, runs_eagerly(batch)); }
  /// Tokens for whose keys and values the fullest GPU has room in the part of its memory that
  /// `memory` grants, next to weights and a pass of that batch; no_limit if the model does not say
  /// what they take. Throws Unsuitable if weights and work do not fit.
  std::int64_t cache_tokens(const ServingBatch& batch, const EngineMemory& memory);
  /// What its routed experts take of a GPU next to these.
  ServedExperts served_experts(const EngineMemory& memory) const;
  /// Why the cluster cannot run the policy's kernels, of any pass; empty: it can.
  std::string cannot_run(const ServingBatch& any) const;
  /// What the policy does by loads, in a pass of that batch.
  struct Balancing {
    bool from_loads = false;  // it places experts by them
    bool planned = false;     // and had seen enough steps before
    Seconds moving;           // how much longer a pass is in which they move, by the newest move
  };
  /// `moving` only if asked: two more plans and simulations.
  Balancing balancing(const ServingBatch& batch, bool times_moving);
  /// What a sequence takes on one GPU; all zero if the model does not say it.
  SequenceCache sequence_cache() const { return sequence_cache(shard()); }
  SequenceCache sequence_cache(const CacheShard& shard) const;
  CacheShard shard() const;

 private:
  StepPrice price_pass(const Scenario& pass, bool eager);
  Scenario with_batch(const ServingBatch& batch) const;
  Scenario at_step(Scenario pass, int step) const;
  bool runs_eagerly(const ServingBatch& batch) const;
  PolicyPlanner planner(const Scenario& pass, bool settled) const;
  Timeline timeline(bool eager, const Plan& plan);

  const PolicyRun& run_;
  Scenario pass_;    // a pass of the run
  GpuModels gpus_;   // those of the run, with the engine's kernels
  GpuModels eager_;  // the same, their hosts without graphs
  EngineOptions engine_;
  std::unique_ptr<SimulatedBackend> backend_, eager_backend_;
};

}  // namespace moesim
