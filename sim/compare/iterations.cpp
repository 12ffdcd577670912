// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/iterations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "sim/base/units.h"
#include "sim/compare/backends.h"
#include "sim/compare/elasticities.h"
#include "sim/compare/forecast.h"
#include "sim/compare/iteration_run.h"
#include "sim/compare/iteration_timelines.h"
#include "sim/compare/run_as_asked.h"
#include "sim/compare/turn_times.h"
#include "sim/iteration/iteration_planner.h"
#include "sim/mechanism/unsuitable.h"
#include "sim/model/model_flops.h"

namespace moesim {
namespace {

struct IterationOutcome {
  std::vector<IterationMetrics> metrics;  // of each fidelity
  std::vector<Pictures> pictures;         // the same, or none
  std::string unsuitable;
  bool fixed = false;  // its placement decides nothing from loads
};

std::string name_of_turn(const Turn& turn) {
  static constexpr std::array<const char*, 4> kinds = {"forward", "backward", "input gradient",
                                                       "weight gradient"};
  const auto text = [](const StageWork& work) {
    return fmt::format("{} of microbatch {}", kinds.at(static_cast<std::size_t>(work.kind)),
                       work.microbatch);
  };
  return text(turn.work) + (turn.beside ? " beside " + text(*turn.beside) : "");
}

/// Of the fullest GPU.
MemoryCurve memory_curve(const IterationMemory& memory, const Pipeline& pipeline,
                         const GpuModels& gpus) {
  const GpuId gpu = fullest(memory.peaks);
  MemoryCurve curve{gpu, memory.peaks[gpu.index()].stage, gpus[gpu.index()]->memory, {}, {}, {}};
  for (int p = 0; p < memory_part_count; ++p) {
    curve.parts.emplace_back(name_of(static_cast<MemoryPart>(p)));
  }
  for (const Turn& turn : pipeline.of(curve.stage)) curve.turns.push_back(name_of_turn(turn));
  if (memory.curve.size() > curve.turns.size()) curve.turns.emplace_back("update");
  for (const MemoryUse& use : memory.curve) {
    auto& bytes = curve.bytes.emplace_back();
    for (const Bytes part : use.parts) bytes.push_back(part.value);
  }
  return curve;
}

double flop_per_token(const IterationRun& run) {
  if (!run.inputs.model.missing_of_whole().empty()) return 0;
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

std::string name_of(const IterationRun& run) {
  return fmt::format("{} {} {}", run.cluster.topology.name(), run.system.name,
                     routing_source_names[static_cast<std::size_t>(run.routing)]);
}

/// Of each fidelity.
std::vector<std::string> names_of(const IterationRun& run) {
  std::vector<std::string> names;
  for (const Fidelity fidelity : run.scenario.fidelities) {
    names.push_back(name_of(run) + " " + backend_name(fidelity, run.scenario.p2p_order));
  }
  return names;
}

void run_iterations(const IterationRun& run, const ComparisonOptions& asked,
                    IterationOutcome& outcome, const JobProgress& progress) {
  PlannedIterations iterations(run);
  const auto backends =
      make_backends(run.scenario.fidelities, run.scenario.p2p_order, run.cluster, asked.others);
  IterationMetrics empty;
  empty.flop_per_token = flop_per_token(run);
  empty.peak_flops = mean_peak(run.cluster, iterations.options().gemm_type());
  outcome.metrics.assign(backends.size(), empty);
  if (asked.pictures) outcome.pictures.resize(backends.size());
  const Pipeline& pipeline = iterations.planner().shape().pipeline;
  IterationTimelines timelines(run.timeline, run.number, names_of(run), run.cluster.topology,
                               pipeline);
  RoutingChange change;
  for (int i = 0; i < iterations.count(); ++i) {
    const IterationPlan planned = iterations.plan(i);
    change.add(planned.change);
    const FullestGpu fullest = fullest_of(planned.memory, run.cluster.gpus);
    const PricedPlan priced(planned.plan, run.cluster.topology);
    const double load = expert_load_max_over_mean(planned.plan);
    report_progress(backends, priced, i, iterations.count(), progress);
    for (std::size_t f = 0; f < backends.size(); ++f) {
      IterationMetrics& metrics = outcome.metrics[f];
      metrics.tokens = planned.tokens;
      metrics.ops = std::ssize(planned.plan.ops);
      if (metrics.fullest.peak < fullest.peak) metrics.fullest = fullest;
      const Timeline timeline = backends[f]->run(priced);
      timelines.add(f, planned, priced, timeline, i);
      metrics.add(iteration_times(planned.plan, timeline, hosts_take_time(run.cluster.gpus)), load);
      metrics.path.add(path_sums(critical_path(planned.plan, timeline), priced, run.cluster.gpus));
      if (i == 0 && pipeline.stages() > 1) {
        metrics.stage_turns =
            turn_times_by_stage(planned.plan, timeline, pipeline, stages_of(planned.memory));
      }
      if (asked.pictures) {
        Pictures& pictures = outcome.pictures[f];
        pictures.add(priced, timeline);
        if (i == 0) {
          pictures.memory = {memory_curve(planned.memory, pipeline, run.cluster.gpus)};
        }
      }
      if (asked.bounds || asked.pictures) {
        if (!metrics.bounds) metrics.bounds.emplace();
        metrics.bounds->add(time_bounds(priced, timeline, run.cluster.gpus,
                                        exchange_rules(run.scenario.fidelities[f])));
      }
      if (asked.least_times) {
        metrics.least = metrics.least.value_or(Seconds(0)) + least_time(priced, run.cluster.gpus);
      }
      if (asked.elasticities && i == 0) {
        const SimulatedAt at{run.scenario.fidelities[f], run.scenario.p2p_order,
                             run.scenario.fidelities};
        metrics.elasticities = elasticities(planned.plan, run.cluster, at, timeline.makespan);
      }
    }
    progress(i + 1, iterations.count());
  }
  timelines.finish();
  const IterationPlanner& planner = iterations.planner();
  outcome.fixed = !planner.plans_from_loads();
  const bool never = planner.plans_from_loads() && !planner.replanned();
  for (IterationMetrics& metrics : outcome.metrics) {
    metrics.loss = planner.layer_planner().loss(change);
    metrics.notes = planner.layer_planner().notes();
    if (const FullestGpu& gpu = metrics.fullest; !gpu.fits()) {
      metrics.notes.push_back(fmt::format("does not fit (!): GPU {} has {} and needs {} {}",
                                          gpu.gpu.value, to_string(gpu.memory), to_string(gpu.peak),
                                          gpu.when));
    }
    if (const std::string why = planner.layer_planner().forced(); !why.empty()) {
      metrics.notes.push_back(why);
    }
    if (!never) continue;
    metrics.notes.push_back(
        "never planned from loads: it has seen too few iterations (--warmup N shows it N more)");
  }
}

IterationOutcome outcome_of_run(const IterationRun& run, const ComparisonOptions& asked,
                                const JobProgress& progress) {
  IterationOutcome outcome;
  try {
    run_iterations(run, asked, outcome, progress);
  } catch (const Unsuitable& e) {
    outcome = {{}, {}, e.diagnostics().front().message};
  }
  return outcome;
}

/// Balanced routing first, and of the first policy alone: it is what the others are held against.
std::vector<IterationRun> runs_on(const Scenario& scenario, const Inputs& inputs,
                                  const ClusterInput& cluster) {
  std::vector<IterationRun> runs;
  const auto& asked = scenario.iteration->routing;
  const auto place = static_cast<std::size_t>(&cluster - inputs.clusters.data());
  for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
    const PolicyView view = view_of(scenario, inputs, p);
    const bool first = p == 0;
    for (const RoutingSource source : {RoutingSource::balanced, RoutingSource::recorded}) {
      const bool wanted = std::ranges::find(asked, source) != asked.end();
      const bool alone = asked.size() == 1;
      if (wanted && (first || alone || source == RoutingSource::recorded)) {
        runs.push_back(
            {view.scenario, view.inputs, view.inputs.clusters[place], view.system, source});
      }
    }
  }
  return runs;
}

std::vector<Seconds> iteration_seconds(const IterationOutcome& outcome) {
  std::vector<Seconds> times;
  for (const IterationMetrics& metrics : outcome.metrics) times.push_back(metrics.times.iteration);
  return times;
}

void require_a_case(const std::vector<IterationCase>& cases) {
  std::vector<Diagnostic> reasons;
  std::set<std::string> told;
  for (const IterationCase& c : cases) {
    if (c.ran()) return;
    const std::string reason =
        fmt::format("{} ({}) on {} was not run: {}", c.policy, c.routing, c.topology, c.unsuitable);
    if (told.insert(reason).second) reasons.push_back({Severity::error, "", 0, 0, reason, "", ""});
  }
  throw Error(reasons);
}

}  // namespace

SimulatedIterations simulate_iterations(const Scenario& scenario, const Inputs& inputs,
                                        const ComparisonOptions& options) {
  std::vector<IterationRun> runs;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (const IterationRun& run : runs_on(scenario, inputs, cluster)) runs.push_back(run);
  }
  const auto timeline =
      open_timeline(options.timeline, inputs, runs.size(), scenario.fidelities.size());
  for (std::size_t r = 0; timeline && r < runs.size(); ++r) {
    runs[r].timeline = &*timeline;
    runs[r].number = static_cast<int>(r);
  }
  std::vector<WorkerJob<IterationOutcome>> jobs;
  for (const IterationRun& run : runs) {
    jobs.push_back({name_of(run), [&run, &options](const JobProgress& progress) {
                      return outcome_of_run(run, options, progress);
                    }});
  }
  const auto [outcomes, signal] = run_as_asked(jobs, options, iteration_seconds);
  if (timeline) {
    std::vector<bool> ran;
    for (const auto& o : outcomes) ran.push_back(o && o->unsuitable.empty());
    timeline->finish(ran);
  }
  std::vector<IterationCase> cases;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (std::size_t f = 0; f < scenario.fidelities.size(); ++f) {
      for (std::size_t r = 0; r < runs.size(); ++r) {
        if (runs[r].cluster.topology.name() != cluster.topology.name()) continue;
        IterationCase& c = cases.emplace_back(
            IterationCase{cluster.topology.name(), runs[r].system.name,
                          routing_source_names[static_cast<std::size_t>(runs[r].routing)],
                          backend_name(scenario.fidelities[f], scenario.p2p_order),
                          cluster.topology.gpu_count()});
        const std::optional<IterationOutcome>& outcome = outcomes[r];
        c.costs = cluster.costs;
        c.interrupted = !outcome;
        c.unsuitable = outcome ? outcome->unsuitable : interrupted_reason;
        c.twin = {runs[r].system.but_placement, c.ran() && outcome->fixed};
        if (c.ran()) c.metrics = outcome->metrics[f];
        if (c.ran() && options.pictures) c.pictures = {outcome->pictures[f]};
      }
    }
  }
  if (!options.may_run_none) require_a_case(cases);
  return {std::move(cases), signal};
}

}  // namespace moesim
