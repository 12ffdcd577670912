// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/base/units.h"
#include "sim/compare/backends.h"
#include "sim/compare/bounds.h"
#include "sim/compare/elasticities.h"
#include "sim/compare/forecast.h"
#include "sim/compare/planning_notes.h"
#include "sim/compare/run_as_asked.h"
#include "sim/mechanism/unsuitable.h"

namespace moesim {
namespace {

/// One policy on one cluster: what a worker runs.
struct PolicyRun {
  const Scenario& scenario;
  const Inputs& inputs;
  const ClusterInput& cluster;
  const SystemSpec& system;
  const ComparisonOptions& asked;
  const TimelineFile* timeline;  // null: is not asked for
  int number;                    // of the run
};

/// What it hands back: metrics of each fidelity, or why there are none.
struct PolicyOutcome {
  std::vector<RunMetrics> metrics;
  std::string unsuitable;
  std::optional<BoundSums> bounds;
  std::vector<Pictures> pictures;  // of each fidelity, or none
  bool fixed = false;              // its placement decides nothing from loads
};

Bytes fullest(const std::vector<GpuMemory>& memory) {
  return std::ranges::max(memory, {}, &GpuMemory::total).total();
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
}

void add_end(RunMetrics& metrics, const StepPlanner& planner, const RoutingChange& change,
             const ClusterInput& cluster) {
  metrics.loss = planner.layers().loss(change);
  const auto played = static_cast<int>(cluster.warmup.size() + cluster.batches.batches.size());
  metrics.notes = planning_notes(planner, cluster, {played, metrics.replans});
  if (metrics.model_memory <= metrics.gpu_memory) return;
  metrics.notes.push_back(fmt::format(
      "would take {} of experts and activations with all MoE layers of the model; a GPU has {}",
      to_string(metrics.model_memory), to_string(metrics.gpu_memory)));
}

Bytes smallest_gpu(const ClusterInput& cluster) {
  Bytes least = cluster.gpus.front()->memory;
  for (const auto& gpu : cluster.gpus) least = std::min(least, gpu->memory);
  return least;
}

/// What holds of any schedule where exchanges share links; a step that beats it has lost rows.
void add_dedup(RunMetrics& metrics, const BoundSums& bounds, Seconds step, const PolicyRun& run,
               Fidelity fidelity) {
  if (!exchange_rules(fidelity).links_shared) return;
  if (bounds.dedup > step * (1 + 1e-9)) {
    throw std::logic_error(fmt::format("{}: a step takes {}, perfect deduplication {}",
                                       run.system.name, to_string(step), to_string(bounds.dedup)));
  }
  metrics.dedup = {bounds.dedup, step, bounds.least_between_hosts, bounds.between_hosts};
}

void add_bounds(RunMetrics& metrics, const PricedPlan& plan, const Timeline& timeline,
                const PolicyRun& run, Fidelity fidelity) {
  if (run.asked.least_times) {
    metrics.least = metrics.least.value_or(Seconds(0)) + least_time(plan, run.cluster.gpus);
  }
  if (!run.asked.bounds && !run.asked.pictures) return;
  if (!metrics.bounds) metrics.bounds.emplace();
  metrics.bounds->add(time_bounds(plan, timeline, run.cluster.gpus, exchange_rules(fidelity)));
}

/// The steps of a run in the file of events, where that is asked for.
class RunTimeline {
 public:
  explicit RunTimeline(const PolicyRun& run) : run_(run) {
    if (run.timeline == nullptr) return;
    events_.emplace(run.timeline->events(run.number));
    const auto& fidelities = run.scenario.fidelities;
    const Topology& topology = run.cluster.topology;
    const int count = static_cast<int>(fidelities.size());
    for (int f = 0; f < count; ++f) {
      const auto fidelity =
          backend_name(fidelities[static_cast<std::size_t>(f)], run.scenario.p2p_order);
      cases_.emplace_back(*events_,
                          run.timeline->named_case(
                              run.number * count + f,
                              fmt::format("{} {} {}", topology.name(), run.system.name, fidelity),
                              chosen_ranks(run.timeline->choice(), topology.gpu_count())),
                          topology);
    }
  }

  void add(std::size_t fidelity, const StepPlan& planned, const PricedPlan& priced,
           const Timeline& timeline, int step) {
    if (run_.timeline == nullptr || shown_ >= run_.timeline->choice().steps) return;
    for (const GpuId gpu : chosen_ranks(run_.timeline->choice(), priced.plan().gpus)) {
      const Bytes held = planned.memory[gpu.index()].total();
      cases_[fidelity].add_memory(gpu, {{Seconds(0), {{"all", static_cast<double>(held.value)}}}});
    }
    cases_[fidelity].add(priced, timeline, fmt::format("step {}", step));
    if (fidelity + 1 == cases_.size()) ++shown_;
  }
  void finish() {
    if (events_) events_->flush();
  }

 private:
  const PolicyRun& run_;
  std::optional<TraceEvents> events_;
  std::vector<TimelineEvents> cases_;  // of each fidelity
  int shown_ = 0;                      // steps
};

/// Plans each step once and simulates it at every fidelity before the next: planners look back, and
/// plans of all steps would not fit. Bounds stay where it throws Unsuitable later.
void run_policy(const PolicyRun& run, PolicyOutcome& outcome, const JobProgress& progress) {
  const ClusterInput& cluster = run.cluster;
  StepPlanner planner(run.system, cluster.topology, run.inputs.model, run.inputs.trace,
                      run.inputs.planner_options(run.scenario, cluster));
  const auto& fidelities = run.scenario.fidelities;
  const auto backends =
      make_backends(fidelities, run.scenario.p2p_order, cluster, run.asked.others);
  outcome.fixed = planner.layers().first_plans().empty();
  RunMetrics empty;
  empty.gpu_memory = smallest_gpu(cluster);
  empty.replans = planner.layers().replans_in_warmup();
  outcome.metrics.assign(backends.size(), empty);
  if (run.asked.pictures) outcome.pictures.resize(backends.size());
  RunTimeline timelines(run);
  RoutingChange change;
  const auto& batches = cluster.batches.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const StepPlan planned = planner.plan(batches[i], cluster.first_step + static_cast<int>(i));
    if (run.asked.bounds && i == 0) {
      const auto port = make_backend(Fidelity::port, run.scenario.p2p_order, cluster, fidelities);
      outcome.bounds = bounds_of(planner, planned, batches[i], cluster, *port);
    }
    change.add(planned.change);
    const PricedPlan priced(planned.plan, cluster.topology);
    report_progress(backends, priced, static_cast<int>(i), static_cast<int>(batches.size()),
                    progress);
    for (std::size_t f = 0; f < backends.size(); ++f) {
      add_memory(outcome.metrics[f], planned, run);
      add_planning(outcome.metrics[f], planned);
      const Timeline timeline = backends[f]->run(priced);
      add_step(outcome.metrics[f], priced, timeline);
      if (run.asked.pictures) outcome.pictures[f].add(priced, timeline);
      const auto path = critical_path(priced.plan(), timeline);
      outcome.metrics[f].path.add(path_sums(path, priced, cluster.gpus));
      add_bounds(outcome.metrics[f], priced, timeline, run, fidelities[f]);
      if (run.asked.bounds && i == 0) {
        add_dedup(outcome.metrics[f], *outcome.bounds, timeline.makespan, run, fidelities[f]);
      }
      if (run.asked.elasticities && i == 0) {
        const SimulatedAt at{fidelities[f], run.scenario.p2p_order, fidelities};
        outcome.metrics[f].elasticities =
            elasticities(planned.plan, cluster, at, timeline.makespan);
      }
      timelines.add(f, planned, priced, timeline, cluster.first_step + static_cast<int>(i));
    }
    progress(static_cast<int>(i) + 1, static_cast<int>(batches.size()));
  }
  timelines.finish();
  for (RunMetrics& m : outcome.metrics) add_end(m, planner, change, cluster);
}

/// Among several cases one that the cluster cannot host is a result of its own.
PolicyOutcome outcome_of(const PolicyRun& run, bool alone, const JobProgress& progress) {
  PolicyOutcome outcome;
  outcome.unsuitable = run.cluster.unsuitable;
  if (!outcome.unsuitable.empty()) return outcome;
  try {
    run_policy(run, outcome, progress);
  } catch (const Unsuitable& e) {
    if (alone) throw;
    outcome = {{}, e.diagnostics().front().message, std::move(outcome.bounds), {}};
  }
  return outcome;
}

std::vector<Seconds> step_times(const PolicyOutcome& outcome) {
  std::vector<Seconds> times;
  for (const RunMetrics& metrics : outcome.metrics) times.push_back(metrics.mean_step());
  return times;
}

JobResults<PolicyOutcome> all_outcomes(const Scenario& scenario, const Inputs& inputs,
                                       const ComparisonOptions& options) {
  std::vector<std::string> fidelities;
  for (const Fidelity fidelity : scenario.fidelities) {
    fidelities.push_back(backend_name(fidelity, scenario.p2p_order));
  }
  const std::size_t runs = inputs.clusters.size() * inputs.systems.size();
  const bool alone = !options.may_run_none && runs * fidelities.size() == 1;
  const auto timeline = open_timeline(options.timeline, inputs, runs, fidelities.size());
  const TimelineFile* const file = timeline ? &*timeline : nullptr;
  std::vector<WorkerJob<PolicyOutcome>> jobs;
  for (std::size_t c = 0; c < inputs.clusters.size(); ++c) {
    for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
      const auto [its_scenario, its_inputs, system] = view_of(scenario, inputs, p);
      const ClusterInput& cluster = its_inputs.clusters[c];
      const PolicyRun run{
          its_scenario, its_inputs, cluster, system, options, file, static_cast<int>(jobs.size())};
      jobs.push_back(
          {fmt::format("{} {} {}", cluster.topology.name(), system.name,
                       fmt::join(fidelities, "+")),
           [run, alone](const JobProgress& progress) { return outcome_of(run, alone, progress); }});
    }
  }
  auto outcomes = run_as_asked(jobs, options, step_times);
  if (timeline) {
    std::vector<bool> ran;
    for (const auto& o : outcomes.results) ran.push_back(o && o->unsuitable.empty());
    timeline->finish(ran);
  }
  return outcomes;
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

ComparisonResult simulate(const Scenario& scenario, const Inputs& inputs,
                          const ComparisonOptions& options) {
  auto [outcomes, signal] = all_outcomes(scenario, inputs, options);
  ComparisonResult result;
  result.signal = signal;
  auto of_cluster = outcomes.begin();
  for (const ClusterInput& cluster : inputs.clusters) {
    const Topology& topology = cluster.topology;
    for (std::size_t f = 0; f < scenario.fidelities.size(); ++f) {
      const std::string fidelity = backend_name(scenario.fidelities[f], scenario.p2p_order);
      auto outcome = of_cluster;
      for (const SystemSpec& system : inputs.systems) {
        CaseResult& c = result.cases.emplace_back(
            CaseResult{{topology.name(), system.name, fidelity}, &topology, {}, {}});
        c.tokens = cluster.batches.tokens_per_rank * topology.gpu_count();
        c.costs = cluster.costs;
        c.interrupted = !*outcome;
        c.unsuitable = c.interrupted ? interrupted_reason : (*outcome)->unsuitable;
        c.twin = {system.but_placement, c.ran() && (*outcome)->fixed};
        if (c.ran()) c.metrics = std::move((*outcome)->metrics[f]);
        if (c.ran() && options.pictures) c.pictures = {std::move((*outcome)->pictures[f])};
        ++outcome;
      }
    }
    for (const SystemSpec& system : inputs.systems) {
      auto& outcome = *of_cluster++;
      if (!outcome || !outcome->bounds) continue;
      result.bounds.push_back({&topology, system.name, std::move(*outcome->bounds)});
    }
  }
  if (!options.may_run_none) require_one(result.cases);
  return result;
}

}  // namespace moesim
