// SPDX-License-Identifier: Apache-2.0
#include "sim/report/iteration_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "sim/base/units.h"
#include "sim/report/compared.h"
#include "sim/report/cost_columns.h"
#include "sim/report/lossy.h"
#include "sim/report/migration.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"

namespace moesim {
namespace {

/// A case and what it is compared with.
struct Shown {
  const IterationCase& of;
  Compared against;

  double time() const { return of.metrics.times.iteration.value; }
  TokenCosts costs() const {
    return TokenCosts::of(of.costs, of.gpus, time(), static_cast<double>(of.metrics.tokens));
  }
};

struct IterationColumn {
  std::string name;
  std::function<Cell(const Shown&)> cell;
  std::function<bool(const Shown&)> told = nullptr;  // null: always telling
  std::string id = {};
};

Cell share(double part) { return percent_cell(part, 1); }

Cell number_cell(double value, int digits) {
  return {fmt::format("{:.{}f}", value, digits), value};
}

/// What decides comes first: these are what 80 columns show.
std::vector<IterationColumn> rate_columns() {
  return {
      {"iteration", [](const Shown& s) { return Cell(s.of.metrics.times.iteration); }},
      {"speedup", [](const Shown& s) { return ratio_cell(s.against.speedup, 3); }},
      {migration_column, [](const Shown& s) { return migration_cell(s.of.metrics.path); },
       [](const Shown& s) { return s.of.metrics.path.share(PathKind::migration) > 0; }},
      {"lossy", [](const Shown& s) { return lossy_cell(s.of.metrics.loss); },
       [](const Shown& s) { return s.of.metrics.loss.any(); }},
      {dollars_column, [](const Shown& s) { return dollars_cell(s.costs()); },
       [](const Shown& s) { return s.costs().dollars_per_million.has_value(); }},
      {joules_column, [](const Shown& s) { return joules_cell(s.costs()); },
       [](const Shown& s) { return s.costs().joules.has_value(); }},
      {"MFU", [](const Shown& s) { return share(s.of.mfu()); },
       [](const Shown& s) { return s.of.mfu() > 0; }},
      {"peak memory",
       [](const Shown& s) {
         const FullestGpu& gpu = s.of.metrics.fullest;
         Cell cell(gpu.peak);
         if (!gpu.fits()) cell.text += "!";
         return cell;
       },
       [](const Shown& s) { return s.of.metrics.fullest.peak.value > 0; }},
      {"critical path", [](const Shown& s) { return Cell(path_text(s.of.metrics.path)); }},
      {"over balanced",
       [](const Shown& s) {
         const auto& over = s.against.over_balanced;
         return over ? Cell(fmt::format("{:+.1f} %", 100 * *over), *over) : Cell("-");
       },
       [](const Shown& s) { return s.against.over_balanced.has_value(); }},
      {"tokens/s/GPU", [](const Shown& s) { return number_cell(s.of.tokens_per_second(), 0); }},
      {"TFLOP/s/GPU", [](const Shown& s) { return number_cell(s.of.tflops(), 1); },
       [](const Shown& s) { return s.of.metrics.flop_per_token > 0; }},
      {"bubble",
       [](const Shown& s) {
         return share(s.of.metrics.times.of(IterationPart::bubble).value / s.time());
       }},
      {"waiting",
       [](const Shown& s) {
         return share(s.of.metrics.times.of(IterationPart::waiting).value / s.time());
       }},
      {"load max/mean",
       [](const Shown& s) { return number_cell(s.of.metrics.load_max_over_mean, 2); }},
  };
}

/// What policies differ in first.
constexpr IterationPart parts_by_interest[] = {
    IterationPart::experts,   IterationPart::tokens,    IterationPart::waiting,
    IterationPart::bubble,    IterationPart::host,      IterationPart::gradients,
    IterationPart::weights,   IterationPart::tensor,    IterationPart::context,
    IterationPart::attention, IterationPart::moe_other, IterationPart::dense,
    IterationPart::optimizer};
static_assert(std::size(parts_by_interest) == iteration_part_count);

std::vector<IterationColumn> part_columns() {
  std::vector<IterationColumn> columns;
  for (const IterationPart part : parts_by_interest) {
    columns.push_back(
        {name_of(part), [part](const Shown& s) { return Cell(s.of.metrics.times.of(part)); },
         [part](const Shown& s) { return s.of.metrics.times.of(part).value > 1e-6 * s.time(); },
         fmt::format("{} time", name_of(part))});
  }
  columns.push_back({"overlapped",
                     [](const Shown& s) { return Cell(s.of.metrics.times.overlapped); },
                     [](const Shown& s) { return s.of.metrics.times.overlapped.value > 0; }});
  return columns;
}

std::vector<IterationColumn> memory_columns(const std::vector<Shown>& cases) {
  std::vector<IterationColumn> columns;
  columns.push_back({"peak", [](const Shown& s) { return Cell(s.of.metrics.fullest.peak); }});
  columns.push_back({"mean GPU", [](const Shown& s) { return Cell(s.of.metrics.fullest.mean); }});
  for (std::size_t p = 0; p < cases.front().of.metrics.fullest.parts.size(); ++p) {
    const auto part = [p](const Shown& s) { return s.of.metrics.fullest.parts.at(p).bytes; };
    columns.push_back({cases.front().of.metrics.fullest.parts[p].name,
                       [part](const Shown& s) { return Cell(part(s)); },
                       [part](const Shown& s) { return part(s).value > 0; },
                       "memory " + cases.front().of.metrics.fullest.parts[p].name});
  }
  return columns;
}

/// What names a case: topology and fidelity only where cases differ in them.
std::vector<IterationColumn> key_columns(const std::vector<Shown>& cases) {
  const auto differ = [&](auto field) {
    return std::ranges::any_of(
        cases, [&](const Shown& s) { return s.of.*field != cases.front().of.*field; });
  };
  std::vector<IterationColumn> keys;
  if (differ(&IterationCase::topology)) {
    keys.push_back({"topology", [](const Shown& s) { return Cell(s.of.topology); }});
  }
  keys.push_back({"policy", [](const Shown& s) { return Cell(s.of.policy); }});
  keys.push_back({"routing", [](const Shown& s) { return Cell(s.of.routing); }});
  if (differ(&IterationCase::fidelity)) {
    keys.push_back({"fidelity", [](const Shown& s) { return Cell(s.of.fidelity); }});
  }
  return keys;
}

Table table_of(const std::vector<Shown>& cases, bool with_bounds) {
  Table table("cases", {});
  table.titles = {"", "# the mean GPU's iteration",
                  "# memory of the fullest GPU at its fullest moment"};
  table.rows.resize(cases.size());
  const auto add = [&](const std::vector<IterationColumn>& columns, TableColumn::Kind kind,
                       int block) {
    for (const IterationColumn& c : columns) {
      const bool telling = !c.told || std::ranges::any_of(cases, c.told);
      table.columns.push_back({c.name, kind, block, telling, c.id});
      for (std::size_t i = 0; i < cases.size(); ++i) table.rows[i].push_back(c.cell(cases[i]));
    }
  };
  add(key_columns(cases), TableColumn::Kind::key, 0);
  add(rate_columns(), TableColumn::Kind::figure, 0);
  add(part_columns(), TableColumn::Kind::figure, 1);
  const bool filled = cases.front().of.metrics.fullest.peak.value > 0;
  if (filled) add(memory_columns(cases), TableColumn::Kind::figure, 2);
  std::vector<BoundedRow> bounded;
  for (const Shown& s : cases) {
    const IterationMetrics& m = s.of.metrics;
    if (!with_bounds || !m.bounds) return table;
    bounded.push_back({m.times.iteration, *m.bounds * (1.0 / m.iterations)});
  }
  add_time_bounds(table, 3, bounded);
  return table;
}

}  // namespace

void IterationMetrics::add(const IterationTimes& other, double load) {
  const double before = static_cast<double>(iterations) / (iterations + 1), now = 1 - before;
  const auto mean = [&](Seconds& a, Seconds b) { a = a * before + b * now; };
  mean(times.iteration, other.iteration);
  for (std::size_t p = 0; p < times.parts.size(); ++p) mean(times.parts[p], other.parts[p]);
  mean(times.slowest_compute, other.slowest_compute);
  mean(times.overlapped, other.overlapped);
  mean(times.busiest, other.busiest);
  load_max_over_mean = load_max_over_mean * before + load * now;
  each.push_back(other.iteration);
  ++iterations;
}

double IterationCase::tokens_per_second() const {
  return static_cast<double>(metrics.tokens) / metrics.times.iteration.value / gpus;
}
double IterationCase::tflops() const {
  return tokens_per_second() * metrics.flop_per_token * 1e-12;
}
double IterationCase::mfu() const {
  return metrics.peak_flops > 0 ? tflops() * 1e12 / metrics.peak_flops : 0;
}

Printout iteration_table(const std::vector<IterationCase>& cases, bool bounds) {
  const std::vector<Compared> against = compared(cases);
  std::vector<Shown> ran;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].ran()) ran.push_back({cases[i], against[i]});
  }
  Printout printout;
  if (!ran.empty()) printout.add(table_of(ran, bounds));
  for (const IterationCase& c : cases) {
    if (!c.ran()) {
      printout.add(fmt::format("# {} ({}) on {} was not run: {}\n", c.policy, c.routing, c.topology,
                               c.unsuitable));
    }
    for (const std::string& note : c.metrics.notes) {
      printout.add(fmt::format("# {} ({}) {}\n", c.policy, c.routing, note));
    }
  }
  return printout.add(baseline_notes(cases)).add(migration_notes(cases));
}

}  // namespace moesim
