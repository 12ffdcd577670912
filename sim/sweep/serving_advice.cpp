// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "sim/base/counted.h"
#include "sim/base/unsuitable.h"
#include "sim/print/formats.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_pool.h"
#include "sim/run/engine_views.h"
#include "sim/serving/engine/launch_line.h"
#include "sim/sweep/kind_times.h"

namespace moesim {
namespace {

struct RunPlan {
  RoughPlan rough;
  EngineOutcome outcome;
  std::string broken;  // what of the SLA; empty: nothing
};

EngineOutcome outcome_of(const std::string& file, const std::vector<Override>& flags,
                         const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan,
                         const RequestLog& log, const JobProgress& progress) {
  EngineOutcome outcome;
  try {
    OpenedPool prompts(scenario_of_kind(file, flags, kinds[plan.prompts]));
    const PoolInstances of_prompts{&prompts.prices(), &prompts.engine_run().engine,
                                   plan.prompt_instances};
    std::unique_ptr<OpenedPool> other;
    std::optional<PoolInstances> decode;
    if (plan.decode_instances > 0) {
      other = std::make_unique<OpenedPool>(scenario_of_kind(file, flags, kinds[plan.decode]));
      decode = {&other->prices(), &other->engine_run().engine, plan.decode_instances};
    }
    return run_pools(prompts.engine_run(), of_prompts, decode, log, progress);
  } catch (const Error& e) {
    outcome.unsuitable = e.diagnostics().front().message;
  }
  return outcome;
}

std::string plan_words(const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan) {
  const auto words = [&](std::size_t kind, int count) {
    return fmt::format("{} x {} {}", count, counted(kinds[kind].gpus, "GPU"), kinds[kind].words());
  };
  if (plan.decode_instances == 0) return words(plan.prompts, plan.prompt_instances);
  return words(plan.prompts, plan.prompt_instances) + " | " +
         words(plan.decode, plan.decode_instances);
}

/// The best ones, half of them of one pool and half of pools apart if there are both.
std::vector<RoughPlan> finalists(const std::vector<RoughPlan>& all, int most) {
  std::vector<RoughPlan> kept;
  for (const bool apart : {false, true}) {
    int count = 0;
    for (const RoughPlan& plan : all) {
      if ((plan.plan.decode_instances > 0) != apart || count == (most + 1) / 2) continue;
      kept.push_back(plan);
      ++count;
    }
  }
  return kept;
}

std::string broken_of(const EngineOutcome& outcome, const std::vector<SlaBound>& bounds) {
  if (!outcome.unsuitable.empty()) return outcome.unsuitable;
  std::string all;
  for (const SlaBound& bound : bounds) {
    if (const auto why = broken_by(outcome.metrics, bound)) {
      all += (all.empty() ? "" : "; ") + *why;
    }
  }
  return all;
}

Cell figure_cell(double figure) {
  return {figure < 10 ? fmt::format("{:.2f}", figure) : fmt::format("{:.0f}", figure), figure};
}

Table plans_table(const std::vector<ServingInstanceKind>& kinds, const std::vector<RunPlan>& plans,
                  std::size_t shown) {
  Table table("deployments", 1,
              {"pools", "GPUs", "TTFT p95", "TPOT p95", "tokens/s/GPU", "goodput/s",
               "KV tokens/rank", "SLA"});
  for (std::size_t i = 0; i < std::min(shown, plans.size()); ++i) {
    const EngineOutcome& o = plans[i].outcome;
    const bool ran = o.unsuitable.empty();
    const auto cell = [&](const Cell& figure) { return ran ? figure : Cell("-"); };
    table.rows.push_back({plan_words(kinds, plans[i].rough.plan),
                          cell(static_cast<std::int64_t>(o.gpus)),
                          cell(Seconds(o.metrics.ttft.p95)), cell(Seconds(o.metrics.tpot.p95)),
                          cell(figure_cell(o.metrics.rates.output_per_gpu)),
                          cell(figure_cell(o.metrics.rates.goodput)),
                          o.kv_tokens == no_limit ? Cell("-") : cell(o.kv_tokens),
                          plans[i].broken.empty() ? Cell("met") : Cell(plans[i].broken)});
  }
  return table;
}

std::string launch_text(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan) {
  std::string text;
  const auto add = [&](std::size_t at, int count, LaunchFacts::Pool pool) {
    const ServingInstanceKind& kind = kinds[at];
    const Scenario scenario = scenario_of_kind(file, flags, kind);
    const Inputs inputs = open_inputs(scenario);
    const std::string line = launch_line(scenario.engine_run->engine,
                                         {scenario.model, kind.gpus, kind.tp, kind.dp(), kind.ep,
                                          inputs.systems.front().dispatch.name, pool});
    if (!line.empty()) text += fmt::format("# {} x {}\n", count, line);
  };
  const bool apart = plan.decode_instances > 0;
  add(plan.prompts, plan.prompt_instances,
      apart ? LaunchFacts::Pool::prompts : LaunchFacts::Pool::all);
  if (apart) add(plan.decode, plan.decode_instances, LaunchFacts::Pool::decode);
  return text;
}

Scenario checked(const std::string& file, const std::vector<Override>& flags) {
  Scenario scenario = read_scenario(file, flags);
  if (!scenario.engine_run) {
    throw Error("--ask serving is about engines that answer requests",
                "a scenario with serving.requests, as scenarios/serving-engine.yaml");
  }
  if (scenario.topologies.size() > 1) {
    throw Error("--ask serving with several topologies", "one of them: --topology NAME");
  }
  return scenario;
}

std::vector<ServingPolicy> policies_of(const Scenario& scenario, const Inputs& inputs) {
  std::vector<ServingPolicy> policies;
  for (std::size_t p = 0; p < scenario.policies.size(); ++p) {
    policies.push_back({scenario.policies[p], inputs.systems[p].dispatch.name == "allgather"});
  }
  return policies;
}

double most_tpot(const std::vector<SlaBound>& bounds) {
  double most = 0;
  for (const SlaBound& bound : bounds) {
    if (bound.metric == SlaBound::Metric::tpot) most = bound.most.value;
  }
  return most;
}

/// Leaves kinds that can run, with their times; a line for each of the others.
std::string leave_out(std::vector<ServingInstanceKind>& kinds, std::vector<KindTimes>& times) {
  std::string text;
  std::vector<ServingInstanceKind> kept;
  std::vector<KindTimes> of_kept;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (times[k].why.empty()) {
      kept.push_back(kinds[k]);
      of_kept.push_back(times[k]);
    } else {
      text += fmt::format("# left out: {} {}: {}\n", counted(kinds[k].gpus, "GPU"),
                          kinds[k].words(), times[k].why);
    }
  }
  if (kept.empty()) throw Error("no kind of instance can run:\n" + text, "a larger cluster");
  kinds = std::move(kept);
  times = std::move(of_kept);
  return text;
}

}  // namespace

Printout advise_serving(const std::string& file, const std::vector<Override>& flags,
                        const ServingAdviceOptions& options) {
  const Scenario scenario = checked(file, flags);
  const Inputs inputs = open_inputs(scenario);
  const Topology& cluster = inputs.clusters.front().topology;
  const auto bounds = parse_sla(options.sla);
  const RequestLog log = requests_of(*scenario.engine_run);
  const ServingDemand demand = demand_of(log, cluster.gpu_count());
  auto kinds = instance_kinds(policies_of(scenario, inputs), cluster.host_count(),
                              cluster.gpu_count() / cluster.host_count());
  std::vector<WorkerJob<KindTimes>> jobs;
  for (const ServingInstanceKind& kind : kinds) {
    jobs.push_back(
        {kind.words(), [&](const JobProgress&) { return times_of(file, flags, kind, demand); }});
  }
  auto times = run_jobs(jobs, options.workers);
  const std::string left_out = leave_out(kinds, times);
  SampledRates rates(kinds, times);
  const auto rough = rough_plans(kinds, demand, most_tpot(bounds), rates);
  const auto chosen = finalists(rough, options.finals);
  std::vector<WorkerJob<EngineOutcome>> runs;
  for (const RoughPlan& plan : chosen) {
    runs.push_back({plan_words(kinds, plan.plan), [&](const JobProgress& progress) {
                      return outcome_of(file, flags, kinds, plan.plan, log, progress);
                    }});
  }
  const auto outcomes = run_jobs(runs, options.workers);
  std::vector<RunPlan> plans;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    plans.push_back({chosen[i], outcomes[i], broken_of(outcomes[i], bounds)});
  }
  std::ranges::stable_sort(plans, [](const RunPlan& a, const RunPlan& b) {
    return std::tuple(a.broken.empty(), a.outcome.metrics.rates.output_per_gpu) >
           std::tuple(b.broken.empty(), b.outcome.metrics.rates.output_per_gpu);
  });
  Printout printout;
  printout.add(engine_header(scenario, inputs, options.version));
  printout.add(fmt::format("# SLA: {}\n# {} of {} kinds of instances, roughly priced; {} run\n",
                           options.sla, counted(rough.size(), "plan"), kinds.size(), plans.size()));
  printout.add(left_out);
  printout.add(plans_table(kinds, plans, static_cast<std::size_t>(options.shown)));
  if (plans.front().broken.empty()) {
    printout.add(launch_text(file, flags, kinds, plans.front().rough.plan));
  } else {
    printout.add("# none of them meets the SLA\n");
  }
  return printout;
}

}  // namespace moesim
