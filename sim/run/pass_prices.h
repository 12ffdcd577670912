// SPDX-License-Identifier: Apache-2.0
// Prices of an engine's passes: each is planned and simulated as a pass of serving is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/kv_cache.h"
#include "sim/plan/backend.h"
#include "sim/run/policy_run.h"
#include "sim/scenario/policy_planner.h"
#include "sim/serving/engine/engine_reader.h"
#include "sim/serving/engine/step_prices.h"

namespace moesim {

/// Plans passes for one policy at one fidelity, with a batch in place of the scenario's. Requests
/// play the sequences of the asked steps of the trace, one after the other and round again. The
/// engine says when a balancer plans (Placer::may_be_told): it then knows the warm-up and the steps
/// that have begun, each of them whole, as if it had planned after every one. Experts of other
/// planners have moved before.
class PassPrices : public StepPrices {
 public:
  /// The run must outlive it. `engine` says which passes graphs run. Throws as PolicyPlanner.
  PassPrices(const PolicyRun& run, Fidelity fidelity, const EngineOptions& engine);
  ~PassPrices() override;

  StepPrice price(const ServingBatch& batch, const PassKind& kind) override;
  bool splits(const ServingBatch& batch) const override;
  StepPrice price_of(const ServingBatch& batch, const PassKind& kind, bool splits) override;
  /// Of the run's first step, where the batch itself says whether a graph runs it.
  StepPrice price(const ServingBatch& batch) { return price(batch, {runs_eagerly(batch)}); }
  RecordedStep step_of(std::int64_t request) const override;
  Rebalancing moving(std::int64_t before, std::int64_t after) override;
  /// Tokens for whose keys and values the fullest GPU has room in the part of its memory that
  /// `memory` grants, next to weights and a pass of that batch; no_limit if the model does not say
  /// what they take. Throws Unsuitable if weights and work do not fit.
  std::int64_t cache_tokens(const ServingBatch& batch, const EngineMemory& memory);
  /// What its routed experts take of a GPU next to these.
  ServedExperts served_experts(const EngineMemory& memory) const;
  /// Why the cluster cannot run the policy's kernels, of any pass; empty: it can.
  std::string cannot_run() const;
  /// What the policy does by loads.
  struct Balancing {
    bool from_loads = false;  // it places experts by them
    bool told = false;        // when the engine says so
    bool planned = false;     // it has, by the steps before the run
  };
  Balancing balancing();
  /// Of attention data parallelism.
  int ranks() const { return static_cast<int>(smallest_.ranks.size()); }
  /// What a sequence takes on one GPU; all zero if the model does not say it.
  SequenceCache sequence_cache() const { return sequence_cache(shard()); }
  SequenceCache sequence_cache(const CacheShard& shard) const;
  CacheShard shard() const;

 private:
  StepPrice price_pass(const Scenario& pass, const PassKind& kind);
  Scenario with_batch(const ServingBatch& batch) const;
  /// Steps of the run, and whether their choices are played.
  AskedSteps asked() const { return asked_iterations(pass_); }
  bool plays_steps() const;
  bool may_be_told();
  /// The planner whose placement was told `balanced` steps of the run; null if it is not told.
  Planner* told(std::int64_t balanced);
  PolicyPlanner planner_of(const Scenario& pass, PolicyPlanner::Options options) const;
  bool runs_eagerly(const ServingBatch& batch) const;
  /// How the hosts of a pass issue it.
  enum class Hosts { graphs, eager, none };
  Timeline timeline(Hosts hosts, const Plan& plan);

  const PolicyRun& run_;
  Scenario pass_;  // a pass of the run
  struct Machine {
    GpuModels gpus;  // those of the run, with the engine's kernels
    std::unique_ptr<SimulatedBackend> backend;
  };
  std::array<Machine, 3> machines_;  // by Hosts
  EngineOptions engine_;
  ServingBatch smallest_;              // a token of every rank
  std::vector<std::int64_t> last_of_;  // [step of the run] the sequence behind its last one
  std::optional<bool> may_be_told_;    // not asked yet
  std::map<std::int64_t, std::unique_ptr<PolicyPlanner>> told_;          // [balanced]
  std::map<std::pair<std::int64_t, std::int64_t>, Rebalancing> moving_;  // [before, after]
};

}  // namespace moesim
