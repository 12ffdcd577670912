// SPDX-License-Identifier: Apache-2.0
// Prices of an engine's passes: each is planned and simulated as a pass of serving is.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/plan/backend.h"
#include "sim/run/policy_run.h"
#include "sim/serving/engine/engine_reader.h"
#include "sim/serving/engine/step_prices.h"

namespace moesim {

/// Plans the first asked step of the trace with a batch in place of the scenario's, for one policy
/// at one fidelity. Requests play the recorded sequences of their numbers.
class PassPrices : public StepPrices {
 public:
  /// The run must outlive it. `engine` says which passes graphs run. Throws as PolicyPlanner.
  PassPrices(const PolicyRun& run, Fidelity fidelity, const EngineOptions& engine);
  ~PassPrices() override;

  StepPrice price(const ServingBatch& batch) override;
  /// Tokens for whose keys and values the fullest GPU has room in the part of its memory that
  /// `memory` grants, next to weights and a pass of that batch; no_limit if the model does not say
  /// what they take. Throws Unsuitable if weights and work do not fit.
  std::int64_t cache_tokens(const ServingBatch& batch, const EngineMemory& memory);
  /// Whether the policy places experts by their loads, as balancers do.
  bool plans_from_loads(const ServingBatch& batch) const;
  /// Whether it does, but had seen too few steps before the pass that was priced last.
  bool never_planned() const { return never_planned_; }
  /// Bytes of one token on one GPU, of all layers.
  Bytes cache_per_token() const;

 private:
  Scenario with_batch(const ServingBatch& batch) const;
  bool in_graph(const ServingBatch& batch) const;

  const PolicyRun& run_;
  Scenario pass_;                                 // a pass of the run
  GpuModels eager_;                               // those of the run, their hosts without graphs
  std::int64_t largest_decode_, largest_prompt_;  // tokens, in graphs
  std::unique_ptr<SimulatedBackend> backend_, eager_backend_;
  bool never_planned_ = false;
};

}  // namespace moesim
