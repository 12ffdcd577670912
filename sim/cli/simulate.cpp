// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/simulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/analytic/analytic_backend.h"
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

std::string simulate_case(const Case& c, const Scenario& scenario, const Inputs& inputs,
                          const Progress& progress) {
  StepPlanner planner(*c.system, c.cluster->topology, inputs.model, inputs.trace,
                      inputs.planner_options(scenario, *c.cluster));
  const auto backend = make_backend(c.fidelity, scenario.p2p_order, *c.cluster);
  const auto& batches = c.cluster->batches.batches;
  RunMetrics run;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const int step = c.cluster->first_step + static_cast<int>(i);
    const StepPlan planned = planner.plan(batches[i], step);
    if (scenario.check_memory) check_memory(planned.memory, c.cluster->gpus, c.system->name);
    add_step(run, planned.plan, backend->run(planned.plan), c.cluster->topology);
    run.planning += planned.planning();
    for (const GpuMemory& gpu : planned.memory) {
      run.peak_memory = std::max(run.peak_memory, gpu.total());
    }
    run.dropped_choices += planned.change.dropped_choices;
    run.replaced_choices += planned.change.replaced_choices;
    progress(static_cast<int>(i) + 1, static_cast<int>(batches.size()));
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
  std::vector<Job> jobs;
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
                          return run_case(c, scenario, inputs, alone, progress);
                        }});
      }
    }
  }
  return run_jobs(jobs, workers);
}

}  // namespace moesim
