// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/run_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/report/cost_columns.h"
#include "sim/run/engine_pool.h"
#include "sim/sweep/priced_kinds.h"

namespace moesim {
namespace {

Cell figure_cell(double figure) {
  return {figure < 10 ? fmt::format("{:.2f}", figure) : fmt::format("{:.0f}", figure), figure};
}

}  // namespace

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
