// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/units.h"
#include "sim/compare/backends.h"
#include "sim/compare/planning_notes.h"
#include "sim/compare/workers.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

/// One policy on one cluster: what a worker runs.
struct PolicyRun {
  const Scenario& scenario;
  const Inputs& inputs;
  const ClusterInput& cluster;
  const SystemSpec& system;
};

/// What it hands back: metrics of each fidelity, or why there are none.
struct PolicyOutcome {
  std::vector<RunMetrics> metrics;
  std::string unsuitable;
};

Bytes fullest(const std::vector<GpuMemory>& memory) {
  Bytes most;
  for (const GpuMemory& gpu : memory) most = std::max(most, gpu.total());
  return most;
}

/// Throws Unsuitable when the layers that the scenario wants checked do not fit.
void add_memory(RunMetrics& metrics, const StepPlan& planned, const PolicyRun& run) {
  const auto replayed = static_cast<int>(run.inputs.layers.size());
  const auto layers = std::max(replayed, static_cast<int>(run.inputs.model.moe_layers.size()));
  const auto whole = for_layers(planned.memory, layers, replayed, run.scenario.backward);
  if (run.scenario.memory != MemoryCheck::ignore) {
    const bool all = run.scenario.memory == MemoryCheck::model;
    check_memory(all ? whole : planned.memory, run.cluster.gpus, run.system.name,
                 all ? fmt::format("all {} MoE layers of the model", layers) : "");
  }
  metrics.peak_memory = std::max(metrics.peak_memory, fullest(planned.memory));
  metrics.model_memory = std::max(metrics.model_memory, fullest(whole));
}

void add_planning(RunMetrics& metrics, const StepPlan& planned) {
  metrics.planning += planned.planning();
  metrics.replans += planned.replanned() ? 1 : 0;
  metrics.dropped_choices += planned.change.dropped_choices;
  metrics.replaced_choices += planned.change.replaced_choices;
}

/// Once the steps are all added.
void add_notes(RunMetrics& metrics, const StepPlanner& planner, const ClusterInput& cluster) {
  const auto played = static_cast<int>(cluster.warmup.size() + cluster.batches.batches.size());
  metrics.notes = planning_notes(planner, cluster, {played, metrics.replans});
  if (metrics.model_memory <= metrics.gpu_memory) return;
  metrics.notes.push_back(
      fmt::format("would take {} of experts and activations with all MoE layers of the model; a "
                  "GPU has {}",
                  to_string(metrics.model_memory), to_string(metrics.gpu_memory)));
}

Bytes smallest_gpu(const ClusterInput& cluster) {
  Bytes least = cluster.gpus.front()->memory;
  for (const auto& gpu : cluster.gpus) least = std::min(least, gpu->memory);
  return least;
}

/// Plans each step once and simulates it at every fidelity before the next: planners look back, and
/// plans of all steps would not fit.
std::vector<RunMetrics> run_policy(const PolicyRun& run, const JobProgress& progress) {
  const auto& [scenario, inputs, cluster, system] = run;
  StepPlanner planner(system, cluster.topology, inputs.model, inputs.trace,
                      inputs.planner_options(scenario, cluster));
  std::vector<std::unique_ptr<Backend>> backends;
  for (const Fidelity fidelity : scenario.fidelities) {
    backends.push_back(make_backend(fidelity, scenario.p2p_order, cluster));
  }
  std::vector<RunMetrics> metrics(backends.size());
  for (RunMetrics& m : metrics) {
    m.gpu_memory = smallest_gpu(cluster);
    m.replans = planner.replans_in_warmup();
  }
  const auto& batches = cluster.batches.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const StepPlan planned = planner.plan(batches[i], cluster.first_step + static_cast<int>(i));
    for (std::size_t f = 0; f < backends.size(); ++f) {
      add_memory(metrics[f], planned, run);
      add_planning(metrics[f], planned);
      add_step(metrics[f], planned.plan, backends[f]->run(planned.plan), cluster.topology);
    }
    progress(static_cast<int>(i) + 1, static_cast<int>(batches.size()));
  }
  for (RunMetrics& m : metrics) add_notes(m, planner, cluster);
  return metrics;
}

/// Among several cases one that the cluster cannot host is a result of its own.
PolicyOutcome outcome_of(const PolicyRun& run, bool alone, const JobProgress& progress) {
  if (!run.cluster.unsuitable.empty()) return {{}, run.cluster.unsuitable};
  try {
    return {run_policy(run, progress), ""};
  } catch (const Unsuitable& e) {
    if (alone) throw;
    return {{}, e.diagnostics().front().message};
  }
}

std::vector<PolicyOutcome> all_outcomes(const Scenario& scenario, const Inputs& inputs,
                                        int workers) {
  std::vector<std::string> fidelities;
  for (const Fidelity fidelity : scenario.fidelities) {
    fidelities.push_back(backend_name(fidelity, scenario.p2p_order));
  }
  const bool alone = inputs.clusters.size() * fidelities.size() * inputs.systems.size() == 1;
  std::vector<WorkerJob<PolicyOutcome>> jobs;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (const SystemSpec& system : inputs.systems) {
      const PolicyRun run{scenario, inputs, cluster, system};
      jobs.push_back(
          {fmt::format("{} {} {}", cluster.topology.name(), system.name,
                       fmt::join(fidelities, "+")),
           [run, alone](const JobProgress& progress) { return outcome_of(run, alone, progress); }});
    }
  }
  return run_jobs(jobs, workers);
}

/// A comparison of nothing is no result.
void require_one(const std::vector<CaseResult>& cases) {
  std::vector<Diagnostic> reasons;
  std::set<std::string> told;  // once for all fidelities
  for (const CaseResult& c : cases) {
    if (c.ran()) return;
    const std::string reason = reason_not_run(c);
    if (told.insert(reason).second) reasons.push_back({Severity::error, "", 0, 0, reason, "", ""});
  }
  reasons.push_back({Severity::error, "", 0, 0, "no case of the comparison can run", "", ""});
  throw Error(reasons);
}

}  // namespace

std::vector<CaseResult> simulate(const Scenario& scenario, const Inputs& inputs, int workers) {
  std::vector<PolicyOutcome> outcomes = all_outcomes(scenario, inputs, workers);
  std::vector<CaseResult> cases;
  for (std::size_t c = 0; c < inputs.clusters.size(); ++c) {
    const Topology& topology = inputs.clusters[c].topology;
    for (std::size_t f = 0; f < scenario.fidelities.size(); ++f) {
      for (std::size_t s = 0; s < inputs.systems.size(); ++s) {
        PolicyOutcome& outcome = outcomes[c * inputs.systems.size() + s];
        CaseResult& result = cases.emplace_back();
        result.name = {topology.name(), inputs.systems[s].name,
                       backend_name(scenario.fidelities[f], scenario.p2p_order)};
        result.topology = &topology;
        result.unsuitable = outcome.unsuitable;
        if (result.ran()) result.metrics = std::move(outcome.metrics[f]);
      }
    }
  }
  require_one(cases);
  return cases;
}

}  // namespace moesim
