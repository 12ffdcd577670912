// SPDX-License-Identifier: Apache-2.0
#include "sim/run/policy_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/base/units.h"
#include "sim/model/model_flops.h"
#include "sim/report/iteration_layers.h"
#include "sim/run/backends.h"
#include "sim/run/bounds.h"
#include "sim/run/elasticities.h"
#include "sim/run/forecast.h"
#include "sim/run/memory_views.h"
#include "sim/run/plan_to_run.h"
#include "sim/run/planning_notes.h"
#include "sim/run/serving_views.h"
#include "sim/run/step_timelines.h"
#include "sim/run/turn_times.h"

namespace moesim {
namespace {

double flop_per_token(const PolicyRun& run) {
  if (!run.inputs.model.missing_of_whole().empty() || run.scenario.iteration->serving) return 0;
  FlopCount count;
  count.sequence = run.scenario.iteration->sequence;
  return training_flops(run.inputs.model, count).total();
}

double mean_peak(const ClusterInput& cluster, DataType type) {
  double sum = 0;
  for (const auto& gpu : cluster.gpus) {
    const auto peak = gpu->peak.find(type);
    if (peak == gpu->peak.end()) return 0;
    sum += peak->second.value;
  }
  return sum / static_cast<double>(cluster.gpus.size());
}

Bytes smallest_gpu(const ClusterInput& cluster) {
  Bytes least = cluster.gpus.front()->memory;
  for (const auto& gpu : cluster.gpus) least = std::min(least, gpu->memory);
  return least;
}

Bytes most_held(const MemoryPeaks& peaks) { return peaks[fullest(peaks).index()].use.total(); }

/// A step that was simulated.
struct Simulated {
  const PlannedStep& planned;  // without its ops, if some GPUs stood for all
  const PricedPlan& priced;
  const Timeline& timeline;
  Fidelity fidelity;
  bool first;                              // of the run
  const Representatives& representatives;  // nobody if all were simulated
};

/// Plans, simulates and measures, in this order for every step.
class Measuring {
 public:
  Measuring(const PolicyRun& run, const ComparisonOptions& asked, PolicyOutcome& outcome)
      : run_(run),
        asked_(asked),
        outcome_(outcome),
        few_(may_stand_for_others(run, asked)),
        steps_(run.scenario, run.inputs, run.cluster, run.system,
               {.routing = run.routing, .join_alike = few_}),
        fidelities_(run.scenario.fidelities),
        backends_(make_backends(fidelities_, run.scenario.p2p_order, run.cluster)),
        timelines_(run.timeline, run.number, names(), run.cluster.topology, planner()) {
    outcome.fixed = !planner().plans_from_loads();
    outcome.metrics.assign(backends_.size(), begun());
    if (asked.pictures) outcome.pictures.resize(backends_.size());
  }

  void run(const JobProgress& progress) {
    RoutingChange change;
    for (int i = 0; i < steps_.count(); ++i) {
      PlannedStep planned = steps_.plan(i);
      steps_.require_memory(planned);
      const bool first = i == 0;
      if (asked_.bounds && first) {
        outcome_.bounds = bounds_of(steps_.planner(), planned, run_.cluster, run_.scenario);
      }
      change.add(planned.change);
      const PlanToRun to_run(planned.plan, run_.cluster, few_);
      const PricedPlan& priced = to_run.priced();
      report_progress(backends_, priced, i, steps_.count(), progress);
      for (std::size_t f = 0; f < backends_.size(); ++f) {
        const Timeline timeline = backends_[f]->run(priced);
        const Simulated step{planned,        priced, timeline,
                             fidelities_[f], first,  to_run.representatives()};
        add(outcome_.metrics[f], step);
        if (asked_.pictures) draw(outcome_.pictures[f], step);
        timelines_.add(f, planned, priced, timeline, i, title(i));
      }
      progress(i + 1, steps_.count());
    }
    timelines_.finish();
    for (RunMetrics& metrics : outcome_.metrics) end(metrics, change);
  }

 private:
  const Planner& planner() const { return steps_.planner(); }
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
                                                      : fmt::format("step {}", steps_.number(i));
  }

  /// Metrics of no step yet.
  RunMetrics begun() const {
    RunMetrics metrics;
    metrics.gpu_memory = smallest_gpu(run_.cluster);
    metrics.replans = planner().layer_planner().replans_in_warmup();
    if (!iterations()) return metrics;
    metrics.iteration.emplace();
    metrics.iteration->flop_per_token = flop_per_token(run_);
    metrics.iteration->peak_flops = mean_peak(run_.cluster, planner().spec().gemm_type());
    if (planner().spec().serves()) {
      metrics.iteration->serving = serving_figures(planner(), run_.inputs.model);
    }
    return metrics;
  }

  void add(RunMetrics& metrics, const Simulated& step) const {
    metrics.tokens = planner().spec().serves() ? output_tokens(planner()) : step.planned.tokens;
    iterations() ? add_iteration(metrics, step) : add_layers(metrics, step);
    metrics.path.add(path_sums(critical_path(step.priced.plan(), step.timeline), step.priced,
                               run_.cluster.gpus));
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
        std::max(metrics.model_memory, most_held(steps_.model_memory(step.planned)));
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
    figures.simulated_gpus = static_cast<int>(step.representatives.gpus.size());
    figures.ops = std::accumulate(plan.ops.begin(), plan.ops.end(), std::int64_t{0},
                                  [](std::int64_t ops, const Op& op) {
                                    return ops + static_cast<std::int64_t>(op.collectives());
                                  });
    const FullestGpu fullest = fullest_of(step.planned.memory, run_.cluster.gpus);
    if (figures.serving) {
      figures.serving->free_cache_tokens = free_cache_tokens(
          fullest, *planner().spec().spec.serving, figures.serving->cache_per_token);
    }
    if (figures.fullest.peak < fullest.peak) figures.fullest = fullest;
    const bool hosts = hosts_take_time(run_.cluster.gpus);
    figures.add(iteration_times(plan, step.timeline, hosts, step.representatives.gpus),
                expert_load_max_over_mean(plan));
    add_layer_figures(metrics, step);
    metrics.steps.push_back(step.timeline.makespan);
    const Pipeline& pipeline = planner().shape().pipeline;
    if (!step.first || pipeline.stages() == 1) return;
    figures.stage_turns =
        turn_times_by_stage(plan, step.timeline, pipeline, stages_of_simulated(step));
  }

  /// [GPU] its stage; below 0 if another stands for it.
  static std::vector<int> stages_of_simulated(const Simulated& step) {
    const std::vector<int> all = stages_of(step.planned.memory);
    if (step.representatives.empty()) return all;
    std::vector<int> stages(all.size(), -1);
    for (const GpuId gpu : step.representatives.gpus) stages[gpu.index()] = all[gpu.index()];
    return stages;
  }

  void add_layer_figures(RunMetrics& metrics, const Simulated& step) const {
    if (!asked_.layers) return;
    const auto layers = iteration_layers(step.priced, step.timeline, stages_of_simulated(step));
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
    iterations() ? note_iterations(metrics) : note_layers(metrics);
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

  void note_iterations(RunMetrics& metrics) const {
    metrics.notes = planner().layer_planner().notes();
    if (const FullestGpu& gpu = metrics.iteration->fullest; !gpu.fits()) {
      metrics.notes.push_back(fmt::format("does not fit (!): GPU {} has {} and needs {} {}",
                                          gpu.gpu.value, to_string(gpu.memory), to_string(gpu.peak),
                                          gpu.when));
    }
    if (const int few = metrics.iteration->simulated_gpus; few > 0) {
      metrics.notes.push_back(fmt::format(
          "simulated by {} of {} GPUs, because the others do the same (--every-gpu: all)", few,
          run_.cluster.topology.gpu_count()));
    }
    if (const std::string why = planner().layer_planner().forced(); !why.empty()) {
      metrics.notes.push_back(why);
    }
    if (!planner().plans_from_loads() || planner().replanned()) return;
    metrics.notes.push_back(
        fmt::format("never planned from loads: it has seen too few {} (--warmup N shows it N more)",
                    planner().spec().serves() ? "steps" : "iterations"));
  }

  const PolicyRun& run_;
  const ComparisonOptions& asked_;
  PolicyOutcome& outcome_;
  bool few_;
  PolicyPlanner steps_;
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
