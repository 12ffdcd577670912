// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "sim/base/units.h"
#include "sim/report/case_columns.h"
#include "sim/run/engine_notes.h"
#include "sim/run/engine_views.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

struct EngineColumn {
  std::string name;
  std::function<Cell(const EngineOutcome&)> cell;
  std::function<bool(const EngineOutcome&)> telling = nullptr;  // none: always
};

Cell rate_cell(double rate) {
  return {rate < 10 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate), rate};
}

Cell time_cell(double seconds) { return {Seconds(seconds)}; }

EngineColumn share_column(const std::string& name, double (*share)(const ServingMetrics&)) {
  return {name, [share](const EngineOutcome& o) { return percent_cell(share(o.metrics), 1); },
          [share](const EngineOutcome& o) { return share(o.metrics) > 0; }};
}

EngineColumn loss_column(const std::string& name, Cell (*cell)(const EngineOutcome&)) {
  return {name, cell, [](const EngineOutcome& o) { return o.losses.losses > 0; }};
}

/// Answers of one token have no time between tokens.
Cell time_or_none(double seconds) { return seconds > 0 ? time_cell(seconds) : no_value("s"); }

std::vector<EngineColumn> latency_columns(bool sla) {
  std::vector<EngineColumn> columns;
  const auto add = [&](const std::string& name, LatencyFigures ServingMetrics::*of,
                       double LatencyFigures::*figure) {
    columns.push_back({name, [of, figure](const EngineOutcome& o) {
                         return time_or_none((o.metrics.*of).*figure);
                       }});
  };
  add("TTFT p50", &ServingMetrics::ttft, &LatencyFigures::p50);
  add("TTFT p95", &ServingMetrics::ttft, &LatencyFigures::p95);
  add("TPOT p50", &ServingMetrics::tpot, &LatencyFigures::p50);
  add("TPOT p95", &ServingMetrics::tpot, &LatencyFigures::p95);
  columns.push_back({"tokens/s/GPU", [](const EngineOutcome& o) {
                       return rate_cell(o.metrics.rates.output_per_gpu);
                     }});
  columns.push_back(
      {dollars_column, [](const EngineOutcome& o) { return dollars_cell(o.costs); },
       [](const EngineOutcome& o) { return o.costs.dollars_per_million.has_value(); }});
  columns.push_back({joules_column, [](const EngineOutcome& o) { return joules_cell(o.costs); },
                     [](const EngineOutcome& o) { return o.costs.joules.has_value(); }});
  if (sla) {
    columns.push_back(
        {"goodput/s", [](const EngineOutcome& o) { return rate_cell(o.metrics.rates.goodput); }});
    columns.push_back({"SLA met", [](const EngineOutcome& o) {
                         return percent_cell(o.metrics.rates.good_share, 1);
                       }});
  }
  return columns;
}

std::vector<EngineColumn> load_columns() {
  return {
      {"requests/s", [](const EngineOutcome& o) { return rate_cell(o.metrics.rates.requests); }},
      {"tokens/s/user",
       [](const EngineOutcome& o) {
         const double rate = o.metrics.rates.output_per_user;
         return rate > 0 ? rate_cell(rate) : Cell("-");
       }},
      {"gap p99", [](const EngineOutcome& o) { return time_or_none(o.metrics.gap.p99); }},
      {"latency p50", [](const EngineOutcome& o) { return time_cell(o.metrics.latency.p50); }},
      {"latency p95", [](const EngineOutcome& o) { return time_cell(o.metrics.latency.p95); }},
      {"running", [](const EngineOutcome& o) { return rate_cell(o.metrics.load.running_mean); }},
      {"waiting", [](const EngineOutcome& o) { return rate_cell(o.metrics.load.waiting_mean); }},
      {"KV tokens/rank", [](const EngineOutcome& o) { return Cell(o.kv_tokens); },
       [](const EngineOutcome& o) { return o.kv_tokens != no_limit; }},
      {"KV use", [](const EngineOutcome& o) { return percent_cell(o.metrics.load.kv_mean, 1); },
       [](const EngineOutcome& o) { return o.kv_tokens != no_limit; }},
      {"most", [](const EngineOutcome& o) { return percent_cell(o.metrics.load.kv_most, 1); },
       [](const EngineOutcome& o) { return o.kv_tokens != no_limit; }},
      share_column("cached", [](const ServingMetrics& m) { return m.load.cached_share; }),
      {"preempted", [](const EngineOutcome& o) { return Cell(o.metrics.load.preemptions); },
       [](const EngineOutcome& o) { return o.metrics.load.preemptions > 0; }},
      loss_column("losses", [](const EngineOutcome& o) { return Cell(o.losses.losses); }),
      loss_column("restarted", [](const EngineOutcome& o) { return Cell(o.losses.restarted); }),
      loss_column("KV lost", [](const EngineOutcome& o) { return Cell(o.losses.kv_tokens); }),
      {"KV left",
       [](const EngineOutcome& o) {
         return o.losses.kv_left == no_limit ? Cell("-") : Cell(o.losses.kv_left);
       },
       [](const EngineOutcome& o) { return o.losses.kv_left != no_limit; }},
      loss_column("lost/h", [](const EngineOutcome& o) {
        return time_cell(3600 * (o.losses.time / o.metrics.time));
      })};
}

std::vector<EngineColumn> time_columns() {
  std::vector<EngineColumn> columns = {
      {"busy", [](const EngineOutcome& o) { return percent_cell(o.metrics.passes.busy, 1); }}};
  for (std::size_t part = 0; part < pass_parts; ++part) {
    columns.push_back({pass_part_names[part], [part](const EngineOutcome& o) {
                         return percent_cell(o.metrics.passes.part_shares[part], 1);
                       }});
  }
  columns.push_back(
      share_column("stalls", [](const ServingMetrics& m) { return m.passes.stall_share; }));
  columns.push_back(
      share_column("padding", [](const ServingMetrics& m) { return m.passes.padding_share; }));
  columns.push_back(
      {"passes", [](const EngineOutcome& o) { return Cell(o.metrics.passes.passes); }});
  columns.push_back({"simulated", [](const EngineOutcome& o) { return Cell(o.simulated); }});
  columns.push_back({"price error",
                     [](const EngineOutcome& o) { return percent_cell(o.errors.worse_mean(), 2); },
                     [](const EngineOutcome& o) { return o.errors.all().checks > 0; }});
  return columns;
}

bool cases_differ(const std::vector<EngineCase>& cases, std::string CaseName::*name) {
  return std::ranges::any_of(
      cases, [&](const EngineCase& c) { return c.name.*name != cases.front().name.*name; });
}

void add_keys(Table& table, const std::vector<EngineCase>& cases,
              const std::vector<const EngineCase*>& ran) {
  const auto add = [&](const std::string& title, std::string CaseName::*name) {
    table.columns.push_back({title, TableColumn::Kind::key});
    for (std::size_t i = 0; i < ran.size(); ++i) table.rows[i].push_back(ran[i]->name.*name);
  };
  if (cases_differ(cases, &CaseName::topology)) add("topology", &CaseName::topology);
  table.columns.push_back({"policy", TableColumn::Kind::key});
  for (std::size_t i = 0; i < ran.size(); ++i) {
    table.rows[i].push_back(marked(ran[i]->name.policy, ran[i]->outcome.cannot_run));
  }
  add("routing", &CaseName::routing);
  if (cases_differ(cases, &CaseName::fidelity)) add("fidelity", &CaseName::fidelity);
}

void add_block(Table& table, const std::vector<const EngineCase*>& ran, const std::string& title,
               const std::vector<EngineColumn>& columns) {
  const int block = static_cast<int>(table.titles.size());
  table.titles.push_back(title);
  for (const EngineColumn& column : columns) {
    const bool telling = !column.telling || std::ranges::any_of(ran, [&](const EngineCase* c) {
      return column.telling(c->outcome);
    });
    table.columns.push_back({column.name, TableColumn::Kind::figure, block, telling});
    for (std::size_t i = 0; i < ran.size(); ++i) {
      table.rows[i].push_back(column.cell(ran[i]->outcome));
    }
  }
}

}  // namespace

Printout engine_table(const Scenario& scenario, const std::vector<EngineCase>& cases) {
  std::vector<const EngineCase*> ran;
  for (const EngineCase& c : cases) {
    if (c.ran()) ran.push_back(&c);
  }
  Table table("cases", {});
  table.rows.resize(ran.size());
  add_keys(table, cases, ran);
  const ServingSla& sla = scenario.engine_run->sla;
  add_block(table, ran, "latency and throughput", latency_columns(sla.ttft || sla.tpot));
  add_block(table, ran, "load", load_columns());
  add_block(table, ran, "where the time of passes goes", time_columns());
  Printout printout;
  printout.add(std::move(table));
  for (const EngineCase& c : cases) {
    if (c.ran()) continue;
    printout.add(fmt::format("# {} on {} was not run: {}\n", c.name.policy_text(), c.name.topology,
                             c.outcome.unsuitable));
  }
  return printout.add(engine_notes(scenario, ran));
}

}  // namespace moesim
