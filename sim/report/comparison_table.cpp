// SPDX-License-Identifier: Apache-2.0
// The table of a comparison: which case is fastest and what binds it, and what it moves and holds.
// Every column is defined in docs/metrics.md.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/report/compared.h"
#include "sim/report/cost_columns.h"
#include "sim/report/lossy.h"
#include "sim/report/migration.h"
#include "sim/report/notes.h"
#include "sim/report/table.h"
#include "sim/report/time_bounds_table.h"

namespace moesim {
namespace {

/// A case of the table.
struct Ran {
  const CaseResult& of;
  double speedup;

  const RunMetrics& run() const { return of.metrics; }
  const LayerMetrics& total() const { return run().total; }
  const Breakdown& breakdown() const { return run().breakdown; }
  std::int64_t steps() const { return std::ssize(run().steps); }
  /// Of a sum over the steps.
  Seconds per_step(Seconds sum) const { return Seconds(sum.value / static_cast<double>(steps())); }
  TokenCosts costs() const {
    return TokenCosts::of(of.costs, of.topology->gpu_count(), run().mean_step().value,
                          static_cast<double>(of.tokens));
  }
};

/// A column tells something where it always does or where some case has something to say.
struct Column {
  const char* name;
  Cell (*cell)(const Ran& c);
  double (*value)(const Ran& c) = nullptr;  // 0: nothing to say
};

Cell bytes_per_step(const Ran& c, Bytes sum) { return Bytes(sum.value / c.steps()); }
Cell choices_per_step(const Ran& c, std::int64_t sum) {
  const double choices = static_cast<double>(sum) / static_cast<double>(c.steps());
  return {fmt::format("{:.0f}", choices), choices};
}

/// Which part of the step is the largest.
Cell bound_by(const Ran& c) {
  const Binding most = binding_part(c.breakdown());
  if (most.time == Seconds(0)) return "-";
  return fmt::format("{} {:.0f} %", most.what, 100 * (c.per_step(most.time) / c.run().mean_step()));
}

Cell busiest_link(const Ran& c) {
  const Topology& topology = *c.of.topology;
  const auto peak = peak_link(c.total().link_bytes, c.run().time_of_steps(), topology);
  if (!peak) return "-";
  return fmt::format("{} {:.0f} %",
                     topology.classes()[static_cast<std::size_t>(peak->link.link_class)].name,
                     100 * peak->utilization);
}

/// In exchanges of parameters that are not gradients.
Seconds weights_time(const Ran& c) {
  return std::max(Seconds(0), c.per_step(c.total().parameters) - c.per_step(c.total().gradients));
}

/// Expert parameters and gradients that leave their GPU, all steps together.
Bytes parameter_bytes(const Ran& c) {
  return c.total().parameter_traffic.same_host + c.total().parameter_traffic.other_host;
}

const std::vector<Column> time_columns = {
    {"step", [](const Ran& c) { return Cell(c.run().mean_step()); }},
    {"speedup", [](const Ran& c) { return ratio_cell(c.speedup, 2); }},
    {migration_column, [](const Ran& c) { return migration_cell(c.run().path); },
     [](const Ran& c) { return c.run().path.share(PathKind::migration); }},
    {"lossy", [](const Ran& c) { return lossy_cell(c.run().loss); },
     [](const Ran& c) { return c.run().loss.any() ? 1.0 : 0.0; }},
    {dollars_column, [](const Ran& c) { return dollars_cell(c.costs()); },
     [](const Ran& c) { return c.costs().dollars_per_million.value_or(0); }},
    {joules_column, [](const Ran& c) { return joules_cell(c.costs()); },
     [](const Ran& c) { return c.costs().joules.value_or(0); }},
    {"bound by", bound_by},
    {"compute", [](const Ran& c) { return Cell(c.per_step(c.total().compute)); }},
    {"exposed", [](const Ran& c) { return Cell(c.per_step(c.total().exposed)); }},
    {"slowest", [](const Ran& c) { return Cell(c.per_step(c.breakdown().slowest_compute)); }},
    {"waiting", [](const Ran& c) { return Cell(c.per_step(c.breakdown().waiting)); }},
    {"overlapped", [](const Ran& c) { return Cell(c.per_step(c.breakdown().overlapped)); }},
    {"grads", [](const Ran& c) { return Cell(c.per_step(c.total().gradients)); },
     [](const Ran& c) { return c.total().gradients.value; }},
    {"params", [](const Ran& c) { return Cell(weights_time(c)); },
     [](const Ran& c) { return weights_time(c).value; }},
    {"planning", [](const Ran& c) { return Cell(c.per_step(c.run().planning)); },
     [](const Ran& c) { return c.run().planning.value; }},
};

const std::vector<Column> volumes = {
    {"load max/mean",
     [](const Ran& c) {
       const double load = c.total().load_max_over_mean.value();
       return Cell(fmt::format("{:.2f}", load), load);
     }},
    {"off-host bytes",
     [](const Ran& c) { return bytes_per_step(c, c.total().traffic.other_host); }},
    {"busiest link", busiest_link},
    {"param bytes", [](const Ran& c) { return bytes_per_step(c, parameter_bytes(c)); },
     [](const Ran& c) { return static_cast<double>(parameter_bytes(c).value); }},
    {"migrated", [](const Ran& c) { return bytes_per_step(c, c.total().migrated); },
     [](const Ran& c) { return static_cast<double>(c.total().migrated.value); }},
    {"dropped choices", [](const Ran& c) { return choices_per_step(c, c.run().loss.dropped); },
     [](const Ran& c) { return static_cast<double>(c.run().loss.dropped); }},
    {"replaced choices", [](const Ran& c) { return choices_per_step(c, c.run().loss.replaced); },
     [](const Ran& c) { return static_cast<double>(c.run().loss.replaced); }},
    {"memory", [](const Ran& c) { return Cell(c.run().peak_memory); }},
    {"all layers",
     [](const Ran& c) {
       const bool overfull = c.run().model_memory > c.run().gpu_memory;
       Cell cell(c.run().model_memory);
       if (overfull) cell.text += "!";
       return cell;
     },
     [](const Ran& c) {
       return static_cast<double>((c.run().model_memory - c.run().peak_memory).value);
     }},
};

/// What names a case: the fidelity only where cases differ in it.
std::vector<Column> keys_of(const std::vector<Ran>& cases) {
  std::vector<Column> keys = {{"topology", [](const Ran& c) { return Cell(c.of.name.topology); }},
                              {"policy", [](const Ran& c) { return Cell(c.of.name.policy); }}};
  const bool differ = std::any_of(cases.begin(), cases.end(), [&](const Ran& c) {
    return c.of.name.fidelity != cases.front().of.name.fidelity;
  });
  if (differ) keys.push_back({"fidelity", [](const Ran& c) { return Cell(c.of.name.fidelity); }});
  return keys;
}

Table table_of(const std::vector<Ran>& cases, bool with_bounds) {
  Table table("cases", {});
  table.rows.resize(cases.size());
  const auto add = [&](const Column& column, TableColumn::Kind kind, int block) {
    const bool telling =
        column.value == nullptr ||
        std::any_of(cases.begin(), cases.end(), [&](const Ran& c) { return column.value(c) != 0; });
    table.columns.push_back({column.name, kind, block, telling});
    for (std::size_t i = 0; i < cases.size(); ++i) table.rows[i].push_back(column.cell(cases[i]));
  };
  for (const Column& c : keys_of(cases)) add(c, TableColumn::Kind::key, 0);
  for (const Column& c : time_columns) add(c, TableColumn::Kind::figure, 0);
  for (const Column& c : volumes) add(c, TableColumn::Kind::figure, 1);
  std::vector<BoundedRow> bounded;
  for (const Ran& c : cases) {
    if (!with_bounds || !c.run().bounds) return table;
    const double steps = static_cast<double>(c.steps());
    bounded.push_back({c.run().mean_step(), *c.run().bounds * (1 / steps)});
  }
  if (!bounded.empty()) add_time_bounds(table, 2, bounded);
  return table;
}

std::vector<Ran> cases_run(const std::vector<CaseResult>& cases) {
  const std::vector<Compared> against = compared(cases);
  std::vector<Ran> ran;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].ran()) ran.push_back({cases[i], against[i].speedup});
  }
  return ran;
}

/// What keeps cases from the table, each once for all fidelities.
std::string lines_of_not_run(const std::vector<CaseResult>& cases) {
  std::vector<std::string> lines;
  for (const CaseResult& c : cases) {
    if (c.ran()) continue;
    std::string line = fmt::format("# {}\n", reason_not_run(c));
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

Printout comparison_table(const std::vector<CaseResult>& cases, bool bounds) {
  Printout printout;
  printout.add(table_of(cases_run(cases), bounds));
  return printout.add(lines_of_not_run(cases))
      .add(baseline_notes(cases))
      .add(notes_below(cases))
      .add(migration_notes(cases));
}

}  // namespace moesim
