// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>
#include <set>

#include "sim/base/units.h"
#include "sim/report/cost_columns.h"
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
Cell time_or_none(double seconds) { return seconds > 0 ? time_cell(seconds) : Cell("-"); }

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
  add("policy", &CaseName::policy);
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

/// How far reused prices were from simulated ones, over all cases.
std::string price_note(const std::vector<const EngineCase*>& ran) {
  std::int64_t checks = 0;
  const EngineCase* worst = nullptr;
  for (const EngineCase* c : ran) {
    checks += c->outcome.errors.all().checks;
    if (worst == nullptr || c->outcome.errors.worse_mean() > worst->outcome.errors.worse_mean()) {
      worst = c;
    }
  }
  if (checks == 0) return "";
  const auto off = [](const PriceErrors& errors) {
    return fmt::format("{:.2f} % off on average and {:.2f} % at most", 100 * errors.mean(),
                       100 * errors.most);
  };
  const auto& [prompts, decodes] = worst->outcome.errors;
  std::string text =
      fmt::format("# prices of passes are reused: {} were simulated to check them", checks);
  if (prompts.checks > 0) text += ", those with prompts " + off(prompts);
  if (decodes.checks > 0) text += (prompts.checks > 0 ? ", others " : ", ") + off(decodes);
  if (ran.size() > 1) text += ", in the case with the largest errors";
  constexpr double much = 0.1;
  return text + (worst->outcome.errors.worse_mean() > much
                     ? ": too much, simulate all (serving.prices: exact)\n"
                     : " (serving.prices: exact simulates all)\n");
}

/// Of a balancer: whether it has planned, and when experts move.
std::string balancing_note(const EngineCase& c) {
  const EngineBalancing& balancing = c.outcome.balancing;
  if (!balancing.from_loads) return "";
  std::string text = fmt::format("# {} on {}", c.name.policy_text(), c.name.topology);
  if (balancing.never_planned()) {
    return text +
           " never planned from loads: it has seen too few steps (--warmup N shows it N before "
           "those of `steps`)\n";
  }
  if (balancing.interval == 0) {
    return text +
           ": experts moved before the run and stay (serving.engine.rebalance: {interval: N} "
           "moves them every N passes)\n";
  }
  if (balancing.interval > c.outcome.metrics.passes.passes) {
    return text + fmt::format(": experts move every {} passes, and the run has {}\n",
                              balancing.interval, c.outcome.metrics.passes.passes);
  }
  return text + fmt::format(
                    ": experts move every {} passes, which takes {} ({}); all passes have the "
                    "placement of loads before the run, so the interval changes only that time\n",
                    balancing.interval, to_string(balancing.stall),
                    balancing.stall_stated ? "stated" : "simulated");
}

/// Of experts that are to move, but of no policy.
std::string rebalance_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  const auto moves = [](const EngineCase* c) { return c->outcome.balancing.from_loads; };
  if (!scenario.engine_run->states_rebalance || ran.empty() || std::ranges::any_of(ran, moves)) {
    return "";
  }
  return "# serving.engine.rebalance has no effect: no policy places experts by their loads\n";
}

/// Of costs that only one pool states.
std::string costs_note(const std::vector<const EngineCase*>& ran) {
  std::set<std::string> gaps;
  for (const EngineCase* c : ran) gaps.insert(c->outcome.costs_not_stated);
  gaps.erase("");
  std::string text;
  for (const std::string& gap : gaps) {
    text += fmt::format(
        "# the {} is not stated: no costs of tokens (topology.price and topology.power, or "
        "serving.decode: {{set: [topology.price=..]}})\n",
        gap);
  }
  return text;
}

/// Of requests that come by themselves, how long the engine still answers after the last one.
std::string drain_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  constexpr double little = 0.1;
  if (ran.empty() || scenario.engine_run->draw.concurrency > 0) return "";
  const auto after = [](const EngineCase* c) {
    return c->outcome.metrics.time - c->outcome.metrics.last_arrival;
  };
  const ServingMetrics& longest = (*std::ranges::max_element(ran, {}, after))->outcome.metrics;
  const Seconds last = longest.last_arrival;  // 0: all come at once
  if (last == Seconds(0) || longest.time <= last * (1 + little)) return "";
  return fmt::format("# rates are over the whole run: requests came until {}, answers until {}\n",
                     to_string(last), to_string(longest.time));
}

std::string loss_note(const Scenario& scenario, const std::vector<const EngineCase*>& ran) {
  const EngineRun& run = *scenario.engine_run;
  if (ran.empty() || (run.losses.empty() && !run.loss_rate)) return "";
  const auto lost = [](const EngineCase* c) { return c->outcome.losses.losses > 0; };
  if (std::ranges::any_of(ran, lost)) return "";
  const auto time = [](const EngineCase* c) { return c->outcome.metrics.time; };
  return fmt::format("# no rank was lost: the first loss comes after the {} of the run\n",
                     to_string(std::ranges::max(ran | std::views::transform(time))));
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
  for (const EngineCase* c : ran) printout.add(balancing_note(*c));
  printout.add(rebalance_note(scenario, ran));
  printout.add(costs_note(ran)).add(loss_note(scenario, ran));
  return printout.add(drain_note(scenario, ran)).add(price_note(ran));
}

}  // namespace moesim
