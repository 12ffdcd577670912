// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/analytic/analytic_backend.h"
#include "sim/base/units.h"
#include "sim/cli/planning_notes.h"
#include "sim/cli/workers.h"
#include "sim/engine/p2p_schedule.h"
#include "sim/engine/simgrid_backend.h"
#include "sim/policy/unsuitable.h"
#include "sim/report/case_report.h"

namespace moesim {
namespace {

struct Case {
  const ClusterInput* cluster;
  const SystemSpec* system;
  Fidelity fidelity;
  CaseName name;
};

Bytes fullest(const std::vector<GpuMemory>& memory) {
  Bytes most;
  for (const GpuMemory& gpu : memory) most = std::max(most, gpu.total());
  return most;
}

/// Throws Unsuitable when the layers that the scenario wants checked do not fit.
void add_memory(RunMetrics& run, const StepPlan& planned, const Case& c, const Scenario& scenario,
                const Inputs& inputs) {
  const auto replayed = static_cast<int>(inputs.layers.size());
  const auto layers = std::max(replayed, static_cast<int>(inputs.model.moe_layers.size()));
  const auto whole = for_layers(planned.memory, layers, replayed, scenario.backward);
  if (scenario.memory != MemoryCheck::ignore) {
    const bool all = scenario.memory == MemoryCheck::model;
    check_memory(all ? whole : planned.memory, c.cluster->gpus, c.system->name,
                 all ? fmt::format("all {} MoE layers of the model", layers) : "");
  }
  run.peak_memory = std::max(run.peak_memory, fullest(planned.memory));
  run.model_memory = std::max(run.model_memory, fullest(whole));
}

std::string simulate_case(const Case& c, const Scenario& scenario, const Inputs& inputs,
                          const Progress& progress) {
  StepPlanner planner(*c.system, c.cluster->topology, inputs.model, inputs.trace,
                      inputs.planner_options(scenario, *c.cluster));
  const auto backend = make_backend(c.fidelity, scenario.p2p_order, *c.cluster);
  const auto& batches = c.cluster->batches.batches;
  RunMetrics run;
  run.gpu_memory = c.cluster->gpus.front()->memory;
  for (const auto& gpu : c.cluster->gpus) run.gpu_memory = std::min(run.gpu_memory, gpu->memory);
  run.replans = planner.replans_in_warmup();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const int step = c.cluster->first_step + static_cast<int>(i);
    const StepPlan planned = planner.plan(batches[i], step);
    add_memory(run, planned, c, scenario, inputs);
    add_step(run, planned.plan, backend->run(planned.plan), c.cluster->topology);
    run.planning += planned.planning();
    run.replans += planned.replanned() ? 1 : 0;
    run.dropped_choices += planned.change.dropped_choices;
    run.replaced_choices += planned.change.replaced_choices;
    progress(static_cast<int>(i) + 1, static_cast<int>(batches.size()));
  }
  const auto played = static_cast<int>(c.cluster->warmup.size() + batches.size());
  run.notes = planning_notes(planner, *c.cluster, {played, run.replans});
  if (run.model_memory > run.gpu_memory) {
    run.notes.push_back(
        fmt::format("would take {} of experts and activations with all MoE layers of the model; a "
                    "GPU has {}",
                    to_string(run.model_memory), to_string(run.gpu_memory)));
  }
  return case_json(c.name, run, c.cluster->topology);
}

/// A case among several that the cluster cannot host is a result of its own.
std::string run_case(const Case& c, const Scenario& scenario, const Inputs& inputs, bool alone,
                     const Progress& progress) {
  try {
    return simulate_case(c, scenario, inputs, progress);
  } catch (const Unsuitable& e) {
    if (alone) throw;
    return unsuitable_json(c.name, e.diagnostics().front().message);
  }
}

/// A comparison of nothing is no result.
void require_one(const std::vector<std::string>& cases) {
  std::vector<Diagnostic> reasons;
  std::set<std::string> told;  // once for all fidelities
  for (const std::string& text : cases) {
    const std::string reason = reason_not_run(text);
    if (reason.empty()) return;
    if (told.insert(reason).second) reasons.push_back({Severity::error, "", 0, 0, reason, "", ""});
  }
  reasons.push_back({Severity::error, "", 0, 0, "no case of the comparison can run", "", ""});
  throw Error(reasons);
}

}  // namespace

std::unique_ptr<Backend> make_backend(Fidelity fidelity, P2pOrder order,
                                      const ClusterInput& cluster) {
  using Simgrid = SimgridOptions::Fidelity;
  switch (fidelity) {
    case Fidelity::port:
      return make_simgrid_backend(cluster.topology, cluster.gpus, {Simgrid::port});
    case Fidelity::flow:
      return make_simgrid_backend(
          cluster.topology, cluster.gpus,
          {.fidelity = Simgrid::flow, .flow_peers = order == P2pOrder::nccl ? nccl_peers : 0});
    case Fidelity::analytic:
      return make_analytic_backend(cluster.topology, cluster.gpus);
  }
  return nullptr;
}

std::string backend_name(Fidelity fidelity, P2pOrder order) {
  const std::string& name = fidelity_names[static_cast<std::size_t>(fidelity)];
  return fidelity == Fidelity::flow && order == P2pOrder::nccl ? name + "-nccl" : name;
}

std::vector<std::string> simulate(const Scenario& scenario, const Inputs& inputs, int workers) {
  std::vector<WorkerJob> jobs;
  const bool alone =
      inputs.clusters.size() * scenario.fidelities.size() * inputs.systems.size() == 1;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (Fidelity fidelity : scenario.fidelities) {
      for (const SystemSpec& system : inputs.systems) {
        const CaseName name{cluster.topology.name(), system.name,
                            backend_name(fidelity, scenario.p2p_order)};
        const Case c{&cluster, &system, fidelity, name};
        jobs.push_back({fmt::format("{} {} {}", name.topology, name.policy, name.fidelity),
                        [c, &scenario, &inputs, alone](const Progress& progress) {
                          const std::string& unsuitable = c.cluster->unsuitable;
                          if (!unsuitable.empty()) return unsuitable_json(c.name, unsuitable);
                          return run_case(c, scenario, inputs, alone, progress);
                        }});
      }
    }
  }
  auto results = run_jobs(jobs, workers);
  require_one(results);
  return results;
}

}  // namespace moesim
