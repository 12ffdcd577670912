// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/validate_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/figures.h"
#include "sim/base/permitted_files.h"
#include "sim/run/backends.h"
#include "sim/run/workers.h"
#include "sim/scenario/executable_steps.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {
namespace {

/// The scenario with another cluster or other figures of it, in which its plans are simulated.
Scenario moved(Scenario scenario, const SimulatedOn& on) {
  if (!on.topology.empty()) {
    scenario.topologies = {on.topology};
    scenario.most_gpus = ClusterLimits().gpus;
    std::erase_if(scenario.set, [](const Override& o) { return o.path.starts_with("topology"); });
  }
  scenario.set.insert(scenario.set.end(), on.changes.begin(), on.changes.end());
  for (auto& own : scenario.own) {
    if (own) own = std::make_shared<const Scenario>(moved(*own, on));
  }
  return scenario;
}

/// Adds what the simulator says of one more of the measured plans.
void add_simulated(SimulatedCase& simulated, SimulatedBackend& backend, const Plan& plan,
                   int plans) {
  const Timeline timeline = backend.run(plan);
  simulated.plans.push_back(hash_of_plan(plan));
  simulated.steps.push_back(timeline.makespan);
  simulated.ops.add(op_times(plan, timeline), 1.0 / plans);
}

SimulatedCase simulate_measured(const MeasuredRun& run, std::size_t policy,
                                const JobProgress& progress) {
  const auto [scenario, planned, system] = view_of(run.scenario, run.planned, policy);
  const ClusterInput& cluster = planned.clusters[0];
  const auto backend =
      make_backend(run.scenario.fidelities[0], run.scenario.p2p_order,
                   view_of(run.scenario, run.simulated, policy).inputs.clusters[0]);
  SimulatedCase simulated;
  PolicyPlanner steps(scenario, planned, cluster, system);
  for (int i = 0; i < steps.count(); ++i) {
    add_simulated(simulated, *backend, steps.plan(i).plan, steps.count());
    progress(i + 1, steps.count());
  }
  return simulated;
}

/// The policies that were measured, of the scenario's list.
std::vector<std::size_t> measured_policies(const MeasuredRun& run) {
  const auto& cases = run.measured.cases;
  const auto& systems = run.planned.systems;
  if (cases.size() != systems.size()) {
    throw error_in(run.measured.file, fmt::format("{} case{} for {} policies", cases.size(),
                                                  cases.size() == 1 ? "" : "s", systems.size()));
  }
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].policy != systems[i].name) {
      throw error_in(run.measured.file, fmt::format("'{}' was measured in the place of '{}'",
                                                    cases[i].policy, systems[i].name));
    }
    if (cases[i].unsuitable.empty()) list.push_back(i);
  }
  return list;
}

/// Throws Error for a file or folder that the result names and the program may not read.
void check_named_files(const HardwareResult& measured) {
  for (const Override& flag : measured.scenario) {
    for (std::size_t at = flag.value.find('"'); at != std::string::npos;) {
      const std::size_t end = flag.value.find('"', at + 1);
      if (end == std::string::npos) break;
      const std::string name = flag.value.substr(at + 1, end - at - 1);
      at = flag.value.find('"', end + 1);
      const bool outside = name.starts_with('/') || name.find("../") != std::string::npos;
      if (!outside || is_permitted(name)) continue;
      throw error_in(measured.file,
                     fmt::format("its '{}' names {}, which is neither in its folder nor in the "
                                 "working directory or the data of moesim",
                                 flag.flag, name),
                     "if you trust the file: --inputs FOLDER");
    }
  }
}

/// Throws Error if the scenario states another number of steps than were measured: a claim, which
/// costs memory and time where it is believed.
void check_steps(const HardwareResult& measured, const Scenario& scenario) {
  if (scenario.steps.last < 0) return;
  const std::int64_t stated = std::int64_t{scenario.steps.last} - scenario.steps.first;
  for (const HardwareCase& one : measured.cases) {
    if (!one.unsuitable.empty() || std::ssize(one.steps) == stated) continue;
    throw error_in(measured.file, fmt::format("{}: {} measured, the scenario has {}", one.policy,
                                              counted(std::ssize(one.steps), "step"), stated));
  }
}

std::string setting(const MeasuredRun& run) {
  const Inputs& inputs = run.planned;
  const StepsOrigin origin = origin_of(run.scenario, inputs, inputs.clusters[0], "");
  const char* passes = origin.iteration  ? "forward, backward and update"
                       : origin.backward ? "forward and backward"
                                         : "forward only";
  return fmt::format("trace {}, model {}: hidden {}, expert ffn {}, {}, {} of {} per rank, {}",
                     inputs.trace.info().name, inputs.model.name, inputs.model.hidden,
                     inputs.model.expert_ffn, counted(origin.layers, "layer"),
                     counted(origin.steps, origin.iteration ? "iteration" : "step"),
                     counted(origin.tokens_per_rank, "token"), passes);
}

}  // namespace

MeasuredRun recall(const std::string& path, const SimulatedOn& on) {
  HardwareResult measured = read_hardware_result(path);
  check_named_files(measured);
  Scenario scenario = read_scenario("", measured.scenario);
  scenario.fidelities = {on.fidelity};
  // A cluster takes memory by its GPUs, and their number is only a claim.
  constexpr std::int64_t gpus_per_byte = 8;
  scenario.most_gpus = std::min<std::int64_t>(measured.ranks, gpus_per_byte * measured.bytes);
  // If a scenario claims more steps than were measured, no more are made than are compared.
  const auto whole = std::ranges::max_element(measured.cases, {},
                                              [](const HardwareCase& c) { return c.steps.size(); });
  if (!scenario.iteration && scenario.steps.last < 0 && whole != measured.cases.end()) {
    const int steps = std::max(1, static_cast<int>(whole->steps.size()));
    scenario.steps = {scenario.warmup, scenario.warmup + steps};
  }
  check_steps(measured, scenario);
  Inputs planned = open_inputs(scenario);
  Inputs simulated = open_inputs(moved(scenario, on));
  const int gpus = planned.clusters[0].topology.gpu_count();
  const Topology& topology = simulated.clusters[0].topology;
  if (topology.gpu_count() != gpus) {
    throw error_in(path, fmt::format("{} ranks were measured, {} has {}", gpus, topology.name(),
                                     counted(topology.gpu_count(), "GPU")));
  }
  return {std::move(measured), std::move(scenario), std::move(planned), std::move(simulated)};
}

std::vector<ResultValidation> validate_runs(const std::vector<MeasuredRun>& runs, int workers) {
  std::vector<WorkerJob<SimulatedCase>> jobs;
  for (const MeasuredRun& run : runs) {
    for (const std::size_t policy : measured_policies(run)) {
      jobs.push_back({fmt::format("{} {}", run.measured.file, run.planned.systems[policy].name),
                      [&run, policy](const JobProgress& progress) {
                        return simulate_measured(run, policy, progress);
                      }});
    }
  }
  const std::vector<SimulatedCase> cases = run_jobs(jobs, workers);
  std::vector<ResultValidation> results;
  auto first = cases.begin();
  for (const MeasuredRun& run : runs) {
    const auto last = first + std::ssize(measured_policies(run));
    ResultValidation& result = results.emplace_back(validate(run.measured, {first, last}));
    first = last;
    result.setting = setting(run);
    result.topology = run.simulated.clusters[0].topology.name();
    result.fidelity = backend_name(run.scenario.fidelities[0], run.scenario.p2p_order);
  }
  return results;
}

}  // namespace moesim
