// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/iterations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "sim/compare/backends.h"
#include "sim/compare/workers.h"
#include "sim/iteration/balanced_trace.h"
#include "sim/iteration/iteration_planner.h"
#include "sim/model/model_flops.h"
#include "sim/policy/unsuitable.h"
#include "sim/scenario/policy_iterations.h"

namespace moesim {
namespace {

/// One policy on one cluster and one kind of routing: what a worker runs.
struct IterationRun {
  const Scenario& scenario;
  const Inputs& inputs;
  const ClusterInput& cluster;
  const SystemSpec& system;
  RoutingSource routing;
};

struct IterationOutcome {
  std::vector<IterationMetrics> metrics;  // of each fidelity
  std::string unsuitable;
};

/// As many tokens as the microbatches that differ take.
RoutingTrace balanced_tokens(const IterationRun& run, const IterationShape& shape) {
  const IterationSpec& spec = *run.scenario.iteration;
  const MoeModel& model = run.inputs.model;
  constexpr int enough = 4;  // microbatches: random choices of many tokens differ little
  const int microbatches = std::min(enough, shape.microbatches);
  TraceInfo info;
  info.model = model.name;
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.layers = model.moe_layers;
  return balanced_trace(std::move(info),
                        std::int64_t{microbatches} * spec.micro_batch * spec.sequence *
                            shape.grid.size(ParallelAxis::dp),
                        spec.sequence);
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

/// The fullest GPU of an iteration.
FullestGpu fullest_of(const IterationMemory& memory, const GpuModels& gpus) {
  const GpuId gpu = fullest(memory.peaks);
  const MemoryPeak& peak = memory.peaks[gpu.index()];
  FullestGpu told{peak.use.total(), Bytes(0), gpus[gpu.index()]->memory, gpu, peak.when()};
  for (int p = 0; p < memory_part_count; ++p) {
    const auto part = static_cast<MemoryPart>(p);
    told.parts.push_back({name_of(part), peak.use.of(part)});
  }
  double sum = 0;
  for (const MemoryPeak& each : memory.peaks) sum += static_cast<double>(each.use.total().value);
  told.mean = Bytes(std::llround(sum / static_cast<double>(memory.peaks.size())));
  return told;
}

void run_iterations(const IterationRun& run, IterationOutcome& outcome,
                    const JobProgress& progress) {
  const IterationOptions options = iteration_options(run.scenario);
  const IterationShape shape =
      shape_of(options.spec, run.cluster.topology.gpu_count(), run.inputs.model);
  const bool balanced = run.routing == RoutingSource::balanced;
  const RoutingTrace made =
      balanced ? balanced_tokens(run, shape) : RoutingTrace(run.inputs.trace.info(), {});
  const RoutingTrace& trace = balanced ? made : run.inputs.trace;
  IterationPlanner planner(run.system, run.cluster.topology, run.inputs.model, trace, options);
  const auto backends = make_backends(run.scenario.fidelities, run.scenario.p2p_order, run.cluster);
  IterationMetrics empty;
  empty.flop_per_token = flop_per_token(run);
  const bool hosts =
      std::ranges::any_of(run.cluster.gpus, [](const auto& gpu) { return gpu->host.takes_time(); });
  empty.peak_flops = mean_peak(run.cluster, options.gemm_type());
  outcome.metrics.assign(backends.size(), empty);
  const auto [first, iterations] = asked_iterations(run.scenario);
  for (int i = std::max(0, first - run.scenario.warmup); i < first; ++i) planner.warm_up(i);
  for (int i = 0; i < iterations; ++i) {
    const IterationPlan planned = planner.plan(first + i);
    if (run.scenario.memory != MemoryCheck::ignore) {
      check_memory(planned.memory.peaks, run.cluster.gpus, run.system.name);
    }
    const FullestGpu fullest = fullest_of(planned.memory, run.cluster.gpus);
    const PricedPlan priced(planned.plan, run.cluster.topology);
    const double load = expert_load_max_over_mean(planned.plan);
    for (std::size_t f = 0; f < backends.size(); ++f) {
      IterationMetrics& metrics = outcome.metrics[f];
      metrics.tokens = planned.tokens;
      metrics.ops = std::ssize(planned.plan.ops);
      if (metrics.fullest.peak < fullest.peak) metrics.fullest = fullest;
      metrics.add(iteration_times(planned.plan, backends[f]->run(priced), hosts), load);
    }
    progress(i + 1, iterations);
  }
  const bool never = planner.plans_from_loads() && !planner.replanned();
  for (IterationMetrics& metrics : outcome.metrics) {
    const FullestGpu& gpu = metrics.fullest;
    metrics.notes.push_back(fmt::format("fills GPU {} most, {}{}", gpu.gpu.value, gpu.when,
                                        gpu.fits() ? "" : ": more than it has (!)"));
    if (!never) continue;
    metrics.notes.push_back(
        "never planned from loads: it has seen too few iterations (--warmup N shows it N more)");
  }
}

IterationOutcome outcome_of_run(const IterationRun& run, const JobProgress& progress) {
  IterationOutcome outcome;
  try {
    run_iterations(run, outcome, progress);
  } catch (const Unsuitable& e) {
    outcome = {{}, e.diagnostics().front().message};
  }
  return outcome;
}

/// Balanced routing first, and of the first policy alone: it is what the others are held against.
std::vector<IterationRun> runs_on(const Scenario& scenario, const Inputs& inputs,
                                  const ClusterInput& cluster) {
  std::vector<IterationRun> runs;
  const auto& asked = scenario.iteration->routing;
  for (const SystemSpec& system : inputs.systems) {
    const bool first = &system == &inputs.systems.front();
    for (const RoutingSource source : {RoutingSource::balanced, RoutingSource::recorded}) {
      const bool wanted = std::ranges::find(asked, source) != asked.end();
      const bool alone = asked.size() == 1;
      if (wanted && (first || alone || source == RoutingSource::recorded)) {
        runs.push_back({scenario, inputs, cluster, system, source});
      }
    }
  }
  return runs;
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

std::vector<IterationCase> simulate_iterations(const Scenario& scenario, const Inputs& inputs,
                                               int workers) {
  std::vector<IterationRun> runs;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (const IterationRun& run : runs_on(scenario, inputs, cluster)) runs.push_back(run);
  }
  std::vector<WorkerJob<IterationOutcome>> jobs;
  for (const IterationRun& run : runs) {
    jobs.push_back({fmt::format("{} {} {}", run.cluster.topology.name(), run.system.name,
                                routing_source_names[static_cast<std::size_t>(run.routing)]),
                    [&run](const JobProgress& progress) { return outcome_of_run(run, progress); }});
  }
  const auto outcomes = run_jobs(jobs, workers);
  std::vector<IterationCase> cases;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (std::size_t f = 0; f < scenario.fidelities.size(); ++f) {
      for (std::size_t r = 0; r < runs.size(); ++r) {
        if (&runs[r].cluster != &cluster) continue;
        IterationCase& c = cases.emplace_back(
            IterationCase{cluster.topology.name(), runs[r].system.name,
                          routing_source_names[static_cast<std::size_t>(runs[r].routing)],
                          backend_name(scenario.fidelities[f], scenario.p2p_order),
                          cluster.topology.gpu_count()});
        c.unsuitable = outcomes[r].unsuitable;
        if (c.ran()) c.metrics = outcomes[r].metrics[f];
      }
    }
  }
  require_a_case(cases);
  return cases;
}

}  // namespace moesim
