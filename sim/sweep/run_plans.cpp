// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/run_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/report/case_columns.h"
#include "sim/run/engine_pool.h"
#include "sim/run/workers.h"

namespace moesim {
namespace {

/// Classes of links of which only the first has a data sheet's rates.
std::set<std::string> contested_by(const TokenRates& sheet, const TokenRates& other) {
  return contested({sheet.by_data_sheet, {}}, other);
}

Cell figure_cell(double figure) {
  return {figure < 10 ? fmt::format("{:.2f}", figure) : fmt::format("{:.0f}", figure), figure};
}

}  // namespace

void PricedKinds::append(PricedKinds more) {
  std::ranges::move(more.kinds, std::back_inserter(kinds));
  std::ranges::move(more.times, std::back_inserter(times));
  left_out += more.left_out;
}

std::string PricedKinds::by_data_sheet(const ServingPlan& plan) const {
  std::set<std::string> links;
  for (const KindTimes& other : times) {
    links.merge(contested_by(times[plan.prompts].rates, other.rates));
    if (plan.decode_instances > 0) links.merge(contested_by(times[plan.decode].rates, other.rates));
  }
  return fmt::format("{}", fmt::join(links, ", "));
}

PricedKinds price_kinds(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingDemand& demand,
                        int workers, const std::function<bool()>& stop) {
  std::vector<WorkerJob<KindTimes>> jobs;
  for (const ServingInstanceKind& kind : kinds) {
    jobs.push_back({kind.words(),
                    [&](const JobProgress&) { return times_of(file, flags, kind, demand, stop); }});
  }
  const auto times = run_jobs(jobs, workers);
  PricedKinds priced;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (times[k].why.empty()) {
      priced.kinds.push_back(kinds[k]);
      priced.times.push_back(times[k]);
    } else {
      priced.left_out += fmt::format("# left out: {} {}: {}\n", counted(kinds[k].gpus, "GPU"),
                                     kinds[k].words(), times[k].why);
    }
  }
  return priced;
}

std::vector<RoughPlan> finalists(const std::vector<ServingInstanceKind>& kinds,
                                 const std::vector<RoughPlan>& ranked, int most) {
  std::vector<RoughPlan> kept;
  for (const bool apart : {false, true}) {
    int count = 0;
    bool has_plain = false;
    for (const RoughPlan& plan : ranked) {
      if ((plan.plan.decode_instances > 0) != apart) continue;
      const bool plain =
          kinds[plan.plan.prompts].besides.empty() && kinds[plan.plan.decode].besides.empty();
      if (count >= (most + 1) / 2 && (has_plain || !plain)) continue;
      kept.push_back(plan);
      has_plain = has_plain || plain;
      ++count;
    }
  }
  return kept;
}

EngineOutcome outcome_of(const std::string& file, const std::vector<Override>& flags,
                         const std::vector<ServingInstanceKind>& kinds, const AskedPlan& asked,
                         const RequestLog& log, const JobProgress& progress) {
  EngineOutcome outcome;
  const auto& [plan, as_run] = asked;
  try {
    OpenedPool prompts(scenario_of_kind(file, flags, kinds[plan.prompts]), RoutingSource::recorded,
                       as_run);
    const PoolInstances of_prompts{&prompts.prices(), &prompts.engine_run().engine,
                                   plan.prompt_instances};
    std::unique_ptr<OpenedPool> other;
    std::optional<PoolInstances> decode;
    if (plan.decode_instances > 0 && plan.decode == plan.prompts) {
      decode = of_prompts;
      decode->count = plan.decode_instances;
    } else if (plan.decode_instances > 0) {
      other = std::make_unique<OpenedPool>(scenario_of_kind(file, flags, kinds[plan.decode]),
                                           RoutingSource::recorded, as_run);
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

Table plans_table(const std::vector<ServingInstanceKind>& kinds, const std::vector<RunPlan>& plans,
                  std::size_t shown) {
  Table table("deployments", 1,
              {"pools", "GPUs", "TTFT p95", "TPOT p95", "tokens/s/GPU", dollars_column, "goodput/s",
               "KV tokens/rank", "SLA"});
  for (std::size_t i = 0; i < std::min(shown, plans.size()); ++i) {
    const EngineOutcome& o = plans[i].outcome;
    const bool ran = o.unsuitable.empty();
    const auto cell = [&](const Cell& figure) { return ran ? figure : no_value(figure.of_unit); };
    table.rows.push_back({plan_words(kinds, plans[i].rough.plan),
                          cell(static_cast<std::int64_t>(o.gpus)),
                          cell(Seconds(o.metrics.ttft.p95)), cell(Seconds(o.metrics.tpot.p95)),
                          cell(figure_cell(o.metrics.rates.output_per_gpu)),
                          cell(dollars_cell(o.costs)), cell(figure_cell(o.metrics.rates.goodput)),
                          o.kv_tokens == no_limit ? Cell("-") : cell(o.kv_tokens),
                          plans[i].broken.empty() ? Cell("met") : Cell(plans[i].broken)});
  }
  const auto dollars = std::ranges::find(table.columns, dollars_column, &TableColumn::name);
  dollars->telling = std::ranges::any_of(plans, [](const RunPlan& plan) {
    return plan.outcome.costs.dollars_per_million.has_value();
  });
  return table;
}

}  // namespace moesim
