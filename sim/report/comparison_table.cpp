// SPDX-License-Identifier: Apache-2.0
// The table of a comparison: which case is fastest and what binds it, and what it moves and holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/report/case_columns.h"
#include "sim/report/migration.h"
#include "sim/report/notes.h"
#include "sim/report/order_notes.h"
#include "sim/report/table.h"
#include "sim/report/time_bounds_table.h"

namespace moesim {
namespace {

/// Whether cases differ in one of their names.
bool differ(const std::vector<ShownCase>& cases, std::string CaseName::*name) {
  return std::ranges::any_of(
      cases, [&](const ShownCase& c) { return c.of.name.*name != cases.front().of.name.*name; });
}

/// What names a case: the fidelity only if cases differ in it, of iterations also the topology.
CaseColumns keys_of(const std::vector<ShownCase>& cases) {
  CaseColumns keys;
  const auto add = [&](const char* title, std::string CaseName::*name) {
    keys.push_back({title, [name](const ShownCase& c) { return Cell(c.of.name.*name); }});
  };
  const bool iterations = !cases.empty() && cases.front().run().iteration;
  if (!iterations || differ(cases, &CaseName::topology)) add("topology", &CaseName::topology);
  keys.push_back({"policy", [](const ShownCase& c) { return Cell(c.of.marked_policy()); }});
  if (iterations) add("routing", &CaseName::routing);
  if (differ(cases, &CaseName::fidelity)) add("fidelity", &CaseName::fidelity);
  return keys;
}

Table table_of(const std::vector<ShownCase>& cases, const char* noun, bool with_bounds) {
  Table table("cases", {});
  table.rows.resize(cases.size());
  const auto add = [&](const CaseColumn& column, TableColumn::Kind kind, int block) {
    const bool telling = !column.telling || std::ranges::any_of(cases, column.telling);
    table.columns.push_back({column.name, kind, block, telling, column.id});
    for (std::size_t i = 0; i < cases.size(); ++i) table.rows[i].push_back(column.cell(cases[i]));
  };
  for (const CaseColumn& c : keys_of(cases)) add(c, TableColumn::Kind::key, 0);
  add({noun, [](const ShownCase& c) { return Cell(c.time()); }}, TableColumn::Kind::figure, 0);
  const bool iterations = !cases.empty() && cases.front().run().iteration;
  const auto blocks = iterations ? iteration_blocks(cases) : layer_blocks();
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (iterations) table.titles.push_back(blocks[block].title);
    for (const CaseColumn& c : blocks[block].columns) {
      add(c, TableColumn::Kind::figure, static_cast<int>(block));
    }
  }
  std::vector<BoundedRow> bounded;
  for (const ShownCase& c : cases) {
    if (!with_bounds || !c.run().bounds) return table;
    bounded.push_back({c.time(), *c.run().bounds * (1 / c.steps())});
  }
  if (!bounded.empty()) add_time_bounds(table, static_cast<int>(blocks.size()), bounded);
  return table;
}

std::vector<ShownCase> cases_run(const std::vector<CaseResult>& cases) {
  const std::vector<Compared> against = compared(cases);
  std::vector<ShownCase> ran;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].ran()) ran.push_back({cases[i], against[i]});
  }
  return ran;
}

/// What keeps cases from the table and what may help, each once for all fidelities.
std::string lines_of_not_run(const std::vector<CaseResult>& cases) {
  std::vector<std::string> lines, hints;
  const auto add = [](std::vector<std::string>& to, std::string line) {
    if (std::ranges::find(to, line) == to.end()) to.push_back(std::move(line));
  };
  for (const CaseResult& c : cases) {
    if (c.ran()) continue;
    add(lines, fmt::format("# {}\n", reason_not_run(c)));
    if (!c.hint.empty()) add(hints, fmt::format("# hint: {}\n", c.hint));
  }
  return fmt::format("{}{}", fmt::join(lines, ""), fmt::join(hints, ""));
}

Table head_of(const char* noun, const std::vector<ColumnBlock>& blocks) {
  Table table("cases", {});
  for (const char* key : {"topology", "policy", "routing", "fidelity"}) {
    table.columns.push_back({key, TableColumn::Kind::key});
  }
  table.columns.push_back({noun});
  for (const ColumnBlock& block : blocks) {
    for (const CaseColumn& c : block.columns) {
      table.columns.push_back({c.name, TableColumn::Kind::figure, 0, true, c.id});
    }
  }
  add_time_bounds(table, 0, {});
  return table;
}

}  // namespace

CaseColumns deciding_columns() {
  return {
      {"speedup",
       [](const ShownCase& c) { return ratio_cell(c.against.speedup, c.run().iteration ? 3 : 2); }},
      {migration_column, [](const ShownCase& c) { return migration_cell(c.run().path); },
       [](const ShownCase& c) { return c.run().path.share(PathKind::migration) > 0; }},
      {"lossy", [](const ShownCase& c) { return lossy_cell(c.run().loss); },
       [](const ShownCase& c) { return c.run().loss.any(); }},
      {dollars_column, [](const ShownCase& c) { return dollars_cell(c.costs()); },
       [](const ShownCase& c) { return c.costs().dollars_per_million.has_value(); }},
      {joules_column, [](const ShownCase& c) { return joules_cell(c.costs()); },
       [](const ShownCase& c) { return c.costs().joules.has_value(); }}};
}

Table head_of_layers() { return head_of("step", layer_blocks()); }

Table head_of_iterations(bool serves, const std::vector<std::string>& memory) {
  return head_of(serves ? "step" : "iteration", iteration_blocks(serves, memory));
}

Printout comparison_table(const std::vector<CaseResult>& cases, bool bounds) {
  Printout printout;
  const std::vector<ShownCase> ran = cases_run(cases);
  if (!ran.empty() || !are_iterations(cases)) {
    printout.add(table_of(ran, noun_of(cases), bounds));
  }
  return printout.add(lines_of_not_run(cases))
      .add(baseline_notes(cases))
      .add(notes_below(cases))
      .add(migration_notes(cases))
      .add(order_notes(cases));
}

}  // namespace moesim
