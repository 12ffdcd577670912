// SPDX-License-Identifier: Apache-2.0
#include "sim/run/policy_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/base/units.h"
#include "sim/report/iteration_layers.h"
#include "sim/run/backends.h"
#include "sim/run/bounds.h"
#include "sim/run/elasticities.h"
#include "sim/run/forecast.h"
#include "sim/run/memory_views.h"
#include "sim/run/metrics_of_no_step.h"
#include "sim/run/plan_to_run.h"
#include "sim/run/planned_steps.h"
#include "sim/run/planning_notes.h"
#include "sim/run/serving_views.h"
#include "sim/run/steady_state.h"
#include "sim/run/step_timelines.h"
#include "sim/run/turn_times.h"

namespace moesim {
namespace {

Bytes most_held(const MemoryPeaks& peaks) { return peaks[fullest(peaks).index()].use.total(); }

/// A step that was simulated.
struct Simulated {
  const PlannedStep& planned;  // without its ops, if some GPUs stood for all
  const PricedPlan& priced;
  const Timeline& timeline;
  Fidelity fidelity;
  bool first;                              // of the run
  const Representatives& representatives;  // nobody if all were simulated
  const std::vector<int>& stages;          // stages_of_simulated
  const SteadyState* steady = nullptr;     // if it is shortened

  /// What the whole has in addition.
  const Continued* continued() const { return steady != nullptr ? &steady->continued : nullptr; }
};

/// [GPU] its stage; below 0 if another stands for it.
std::vector<int> stages_of_simulated(const PlannedStep& planned,
                                     const Representatives& representatives) {
  const std::vector<int> all = stages_of(planned.memory);
  if (representatives.empty()) return all;
  std::vector<int> stages(all.size(), -1);
  for (const GpuId gpu : representatives.gpus) stages[gpu.index()] = all[gpu.index()];
  return stages;
}

/// Those that other runs have kept, or fresh ones.
std::shared_ptr<PlannedSteps> steps_of(const PolicyRun& run, const ComparisonOptions& asked,
                                       bool few) {
  if (asked.kept != nullptr && *asked.kept) return *asked.kept;
  const PolicyPlanner::Options options{
      .routing = run.routing, .join_alike = few, .fewer_microbatches = may_continue(run, asked)};
  const auto steps = std::make_shared<PlannedSteps>(run, options, asked.kept != nullptr);
  if (asked.kept != nullptr) *asked.kept = steps;
  return steps;
}

/// Plans, simulates and measures, in this order for every step.
class Measuring {
 public:
  Measuring(const PolicyRun& run, const ComparisonOptions& asked, PolicyOutcome& outcome)
      : run_(run),
        asked_(asked),
        outcome_(outcome),
        few_(may_stand_for_others(run, asked)),
        steps_(steps_of(run, asked, few_)),
        fidelities_(run.scenario.fidelities),
        backends_(make_backends(fidelities_, run.scenario.p2p_order, run.cluster)),
        timelines_(run.timeline, run.number, names(), run.cluster.topology, planner()) {
    steps_->price_on(run.cluster.topology);
    outcome.fixed = !planner().plans_from_loads() && !planner().layer_planner().reacts();
    outcome.metrics.assign(backends_.size(), metrics_of_no_step(run, planner()));
    if (asked.pictures) outcome.pictures.resize(backends_.size());
  }

  void run(const JobProgress& progress) {
    RoutingChange change;
    for (int i = 0; i < steps().count(); ++i) {
      PlannedStep& planned = steps_->step(i);
      steps().require_memory(planned, run_.cluster.gpus);
      if (asked_.bounds && i == 0) {
        outcome_.bounds = bounds_of(steps().planner(), planned, run_.cluster, run_.scenario);
      }
      change.add(planned.change);
      const std::size_t done = simulate(planned, i, 0, progress);
      if (done < backends_.size()) {
        steps().planner().plan_every_microbatch(planned);
        simulate(planned, i, done, progress);
      }
      progress(i + 1, steps().count());
    }
    timelines_.finish();
    for (RunMetrics& metrics : outcome_.metrics) end(metrics, change);
  }

 private:
  /// At the fidelities from one on, up to the first at which a shortened pipeline is not steady.
  /// Returns that.
  std::size_t simulate(PlannedStep& planned, int i, std::size_t from, const JobProgress& progress) {
    const PlanToRun to_run(planned.plan, run_.cluster, few_, steps_->loads(i));
    const PricedPlan& priced = to_run.priced();
    const std::vector<int> stages = stages_of_simulated(planned, to_run.representatives());
    report_progress(backends_, priced, i, steps().count(), progress);
    for (std::size_t f = from; f < backends_.size(); ++f) {
      const Timeline timeline = backends_[f]->run(priced);
      std::optional<SteadyState> steady;
      if (planned.shortened != nullptr) {
        steady = steady_state(priced, timeline, *planned.shortened, stages, run_.cluster.gpus);
        if (!steady) return f;
      }
      const Simulated step{planned,  priced,
                           timeline, fidelities_[f],
                           i == 0,   to_run.representatives(),
                           stages,   steady ? &*steady : nullptr};
      add(outcome_.metrics[f], step);
      if (asked_.pictures) draw(outcome_.pictures[f], step);
      timelines_.add(f, planned, priced, timeline, i, title(i));
    }
    return backends_.size();
  }

  PolicyPlanner& steps() { return steps_->planner(); }
  const PolicyPlanner& steps() const { return steps_->planner(); }
  const Planner& planner() const { return steps().planner(); }
  bool iterations() const { return !planner().spec().only_layers; }

  /// Names each fidelity.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Fidelity fidelity : fidelities_) {
      names.push_back(run_.name() + " " + backend_name(fidelity, run_.scenario.p2p_order));
    }
    return names;
  }

  std::string title(int i) const {
    return iterations() && !planner().spec().serves() ? fmt::format("iteration {}", i)
                                                      : fmt::format("step {}", steps().number(i));
  }

  void add(RunMetrics& metrics, const Simulated& step) const {
    metrics.tokens = planner().spec().serves() ? output_tokens(planner()) : step.planned.tokens;
    iterations() ? add_iteration(metrics, step) : add_layers(metrics, step);
    const auto path = step.steady != nullptr ? step.steady->path
                                             : critical_path(step.priced.plan(), step.timeline);
    metrics.path.add(path_sums(path, step.priced, run_.cluster.gpus));
    if (asked_.least_times) {
      metrics.least =
          metrics.least.value_or(Seconds(0)) + least_time(step.priced, run_.cluster.gpus);
    }
    if (asked_.bounds || asked_.pictures) {
      if (!metrics.bounds) metrics.bounds.emplace();
      metrics.bounds->add(time_bounds(step.priced, step.timeline, run_.cluster.gpus,
                                      exchange_rules(step.fidelity)));
    }
    if (asked_.elasticities && step.first) {
      const SimulatedAt at{step.fidelity, run_.scenario.p2p_order};
      metrics.elasticities =
          elasticities(step.planned.plan, run_.cluster, at, step.timeline.makespan);
    }
  }

  void add_layers(RunMetrics& metrics, const Simulated& step) const {
    const MemoryPeaks& peaks = step.planned.memory.peaks;
    metrics.peak_memory = std::max(metrics.peak_memory, most_held(peaks));
    metrics.model_memory =
        std::max(metrics.model_memory, most_held(steps().model_memory(step.planned)));
    metrics.planning += step.planned.planning();
    metrics.replans += step.planned.replanned() ? 1 : 0;
    add_step(metrics, step.priced, step.timeline);
    if (asked_.bounds && step.first) add_dedup(metrics, step);
  }

  /// What holds of any schedule if exchanges share links; a step that beats it has lost rows.
  void add_dedup(RunMetrics& metrics, const Simulated& step) const {
    if (!exchange_rules(step.fidelity).links_shared) return;
    const BoundSums& bounds = *outcome_.bounds;
    const Seconds time = step.timeline.makespan;
    if (bounds.dedup > time * (1 + 1e-9)) {
      throw std::logic_error(fmt::format("{}: a step takes {}, perfect deduplication {}",
                                         run_.system.name, to_string(time),
                                         to_string(bounds.dedup)));
    }
    metrics.dedup = {bounds.dedup, time, bounds.least_between_hosts, bounds.between_hosts};
  }

  void add_iteration(RunMetrics& metrics, const Simulated& step) const {
    IterationFigures& figures = *metrics.iteration;
    const Plan& plan = step.priced.plan();
    const Continued* continued = step.continued();
    figures.simulated_gpus = static_cast<int>(step.representatives.gpus.size());
    figures.ops = 0;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const std::int64_t times = continued != nullptr ? continued->count(i) : 1;
      figures.ops += times * static_cast<std::int64_t>(plan.ops[i].collectives());
    }
    if (continued != nullptr) {
      figures.simulated_microbatches = step.planned.shortened->pipeline.microbatches();
      figures.continued_error = std::max(figures.continued_error, continued->error);
      figures.continued_drift = std::max(figures.continued_drift, continued->drift);
    }
    const FullestGpu fullest = fullest_of(step.planned.memory, run_.cluster.gpus);
    if (auto& serving = figures.serving) {
      serving->add(activated_experts(plan),
                   free_cache_tokens(planner(), step.planned.memory, run_.cluster.gpus,
                                     serving->cache_per_token));
    }
    if (figures.fullest.peak < fullest.peak) figures.fullest = fullest;
    const bool hosts = hosts_take_time(run_.cluster.gpus);
    figures.add(iteration_times(plan, step.timeline, hosts, step.representatives.gpus, continued),
                expert_load_max_over_mean(plan, continued));
    add_layer_figures(metrics, step);
    const Seconds makespan = step.timeline.makespan;
    metrics.steps.push_back(makespan + (continued != nullptr ? continued->left_out() : Seconds(0)));
    if (step.first) figures.stage_turns = stage_turns(step);
  }

  /// None of a single stage.
  std::vector<TurnTimes> stage_turns(const Simulated& step) const {
    const Pipeline& whole = planner().shape().pipeline;
    if (whole.stages() == 1) return {};
    if (step.steady == nullptr) {
      return turn_times_by_stage(step.priced.plan(), step.timeline, whole, step.stages);
    }
    return turn_times_by_stage(step.steady->turns, step.timeline.makespan,
                               step.planned.shortened->pipeline, step.stages, step.continued());
  }

  void add_layer_figures(RunMetrics& metrics, const Simulated& step) const {
    if (!asked_.layers) return;
    const auto layers = iteration_layers(step.priced, step.timeline, step.stages, step.continued());
    for (const auto& [number, layer] : layers) metrics.layers[number].add(layer);
  }

  void draw(Pictures& pictures, const Simulated& step) const {
    pictures.add(step.priced, step.timeline, step.representatives.of);
    if (!iterations() || !step.first) return;
    pictures.memory = {
        memory_curve(step.planned.memory, planner().shape().pipeline, run_.cluster.gpus)};
  }

  void end(RunMetrics& metrics, const RoutingChange& change) const {
    metrics.loss = planner().layer_planner().loss(change);
    outcome_.cannot_run = cannot_run(planner(), metrics, run_.scenario.memory);
    if (!iterations()) return note_layers(metrics);
    metrics.notes = iteration_notes(planner(), run_.cluster, *metrics.iteration);
    const std::string note =
        low_latency_note(run_.system, run_.inputs.model, *run_.scenario.iteration);
    if (!note.empty()) metrics.notes.push_back(note);
  }

  void note_layers(RunMetrics& metrics) const {
    const ClusterInput& cluster = run_.cluster;
    const auto played = static_cast<int>(cluster.warmup.size() + cluster.batches.batches.size());
    metrics.notes = planning_notes(planner(), cluster, {played, metrics.replans});
    if (metrics.model_memory <= metrics.gpu_memory) return;
    metrics.notes.push_back(fmt::format(
        "would take {} of experts and activations with all MoE layers of the model; a GPU has {}",
        to_string(metrics.model_memory), to_string(metrics.gpu_memory)));
  }

  const PolicyRun& run_;
  const ComparisonOptions& asked_;
  PolicyOutcome& outcome_;
  bool few_;
  std::shared_ptr<PlannedSteps> steps_;
  const std::vector<Fidelity>& fidelities_;
  std::vector<std::unique_ptr<SimulatedBackend>> backends_;
  StepTimelines timelines_;
};

}  // namespace

std::string PolicyRun::routing_text() const {
  return scenario.iteration ? routing_source_names[static_cast<std::size_t>(routing)] : "";
}

std::string PolicyRun::name() const {
  const std::string text = routing_text();
  return fmt::format("{} {}{}{}", cluster.topology.name(), system.name, text.empty() ? "" : " ",
                     text);
}

void run_policy(const PolicyRun& run, const ComparisonOptions& asked, PolicyOutcome& outcome,
                const JobProgress& progress) {
  Measuring(run, asked, outcome).run(progress);
}

}  // namespace moesim
