// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/interval_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/evidence/error_bars.h"
#include "sim/report/compared.h"
#include "sim/report/token_rates.h"

namespace moesim {
namespace {

using Span = CaseIntervals::Ends;

/// A case as the table takes it.
struct TimedCase {
  std::vector<std::string> names;
  std::vector<Seconds> times;  // of steps or iterations
  Seconds mean;
  std::vector<std::pair<const char*, Seconds>> parts;
  std::size_t place = 0;  // among all cases
  Compared against = {};
  Unmeasured lacks = {};
  TokenRates rates = {};

  bool is_baseline() const { return against.baseline == place; }
};

TimedCase timed(const CaseResult& c) {
  const RunMetrics& run = c.metrics;
  TimedCase result{{c.name.topology, c.marked_policy()}, run.steps, run.mean_step(), {}};
  result.rates = token_rates(c);
  if (!run.iteration) {
    const Breakdown& b = run.breakdown;
    result.parts = {{"compute", b.compute},     {"tokens", b.tokens},   {"weights", b.weights},
                    {"gradients", b.gradients}, {"waiting", b.waiting}, {"idle", b.idle}};
    return result;
  }
  result.names.push_back(c.name.routing);
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    result.parts.emplace_back(name_of(part), run.times().of(part));
  }
  return result;
}

/// The ones that ran.
std::vector<TimedCase> timed_cases(const std::vector<CaseResult>& cases,
                                   const std::vector<Unmeasured>& lacks) {
  const std::vector<Compared> against = compared(cases);
  std::vector<TimedCase> result;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].ran()) continue;
    result.push_back(timed(cases[i]));
    result.back().place = i;
    result.back().against = against[i];
    if (i < lacks.size()) result.back().lacks = lacks[i];
  }
  return result;
}

const TimedCase& baseline_of(const TimedCase& c, const std::vector<TimedCase>& cases) {
  return *std::ranges::find(cases, c.against.baseline, &TimedCase::place);
}

std::string words_of(const Span& span) { return fmt::format("{:.2f}-{:.2f}", span.low, span.high); }

/// The two sources of error are independent: their logarithms add as squares.
Span with_model(const Sampled& of, const ModelError& model) {
  const double sampling = of.half / of.value;
  const auto both = [&](double factor) { return std::hypot(sampling, std::log(factor)); };
  return {of.value * std::exp(-both(std::max(1.0, model.high))),
          of.value * std::exp(both(std::min(1.0, model.low)))};
}

/// The part in which two policies differ most.
const char* most_different_part(const TimedCase& a, const TimedCase& b) {
  const char* name = a.parts.front().first;
  double most = -1;
  for (std::size_t p = 0; p < a.parts.size(); ++p) {
    const double differ = std::abs((a.parts[p].second - b.parts[p].second).value);
    if (differ > most) most = differ, name = a.parts[p].first;
  }
  return name;
}

std::string told_apart(const TimedCase& c, const TimedCase& base, const Sampled& speedup,
                       const Span& all) {
  if (c.is_baseline()) return "";
  if (std::abs(speedup.value - 1) <= speedup.half) {
    const auto count = static_cast<std::int64_t>(c.times.size());
    const auto needed = steps_to_tell(speedup, count);
    return needed ? fmt::format("no, {}", counted(std::max(*needed, count + 1), "step")) : "no";
  }
  if (const auto links = contested(c.rates, base.rates); !links.empty()) {
    return fmt::format("measure {}", *links.begin());  // no interval knows what a data sheet hides
  }
  if (all.holds(1)) return fmt::format("measure {}", most_different_part(c, base));
  return "yes";
}

/// What is known of a case.
struct Known {
  std::optional<Sampled> time, speedup;  // none of one step or iteration
  CaseIntervals intervals;
};

Known known_of(const TimedCase& c, const TimedCase& base, const ShippedModelErrors& errors) {
  Known known{sampled_mean(c.times), sampled_speedup(base.times, c.times), {}};
  if (known.speedup) {  // steps are paired by time, clusters compared by time per token
    known.speedup->value *= c.against.more_tokens;
    known.speedup->half *= c.against.more_tokens;
  }
  const Sampled speedup = known.speedup.value_or(Sampled{c.against.speedup, 0});
  CaseIntervals& all = known.intervals;
  all.seconds =
      with_model(known.time.value_or(Sampled{c.mean.value, 0}), error_of_time(errors, c.lacks));
  all.speedup = c.is_baseline()
                    ? Span{1, 1}
                    : with_model(speedup, error_of_speedup(errors, base.lacks, c.lacks));
  all.unmeasured = c.lacks.words();
  all.told_apart = told_apart(c, base, speedup, all.speedup);
  return known;
}

/// From the speedup on.
void add_speedup(std::vector<Cell>& row, const TimedCase& c, const Known& known) {
  const Sampled speedup = known.speedup.value_or(Sampled{c.against.speedup, 0});
  const bool sampled = known.speedup && !c.is_baseline();
  row.push_back(ratio_cell(speedup.value, 2));
  row.push_back(sampled ? words_of({speedup.value - speedup.half, speedup.value + speedup.half})
                        : "-");
  row.emplace_back(known.intervals.told_apart);
  row.push_back(c.is_baseline() ? "-" : words_of(known.intervals.speedup));
}

std::vector<Cell> row_of_steps(const TimedCase& c, const Known& known) {
  std::vector<Cell> row(c.names.begin(), c.names.end());
  row.emplace_back(c.mean);
  if (!known.time || !known.speedup) {
    row.insert(row.end(),
               {Cell("-"), ratio_cell(c.against.speedup, 2), Cell("-"), Cell("-"), Cell("-")});
    return row;
  }
  const Sampled& step = *known.time;
  row.push_back({fmt::format("{:.1f} %", 100 * step.half / step.value), step.half, "s"});
  add_speedup(row, c, known);
  return row;
}

std::vector<Cell> row_of_iterations(const TimedCase& c, const Known& known) {
  const Span& all = known.intervals.seconds;
  std::vector<Cell> row(c.names.begin(), c.names.end());
  row.emplace_back(c.mean);
  row.emplace_back(to_string(Seconds(all.low)) + " - " + to_string(Seconds(all.high)));
  add_speedup(row, c, known);
  return row;
}

using RowOf = std::vector<Cell> (*)(const TimedCase&, const Known&);

void add_rows(Table& table, const std::vector<TimedCase>& cases, const ShippedModelErrors& errors,
              RowOf row_of) {
  for (const TimedCase& c : cases) {
    table.rows.push_back(row_of(c, known_of(c, baseline_of(c, cases), errors)));
  }
}

std::string words_of(const ShippedModelErrors& errors) {
  return fmt::format("({} to {}; times {} to {})", signed_percent(errors.speedups.low - 1),
                     signed_percent(errors.speedups.high - 1), signed_percent(errors.times.low - 1),
                     signed_percent(errors.times.high - 1));
}

bool has_one(const TimedCase& c) { return c.times.size() < 2; }

/// "# not measured, so wider (times -79 % to +22 %): efa and its hosts", with the cases that lack
/// it.
std::vector<std::string> lines_of_unmeasured(const std::vector<TimedCase>& list,
                                             const ShippedModelErrors& errors) {
  std::vector<std::string> lines;
  for (const TimedCase& c : list) {
    const auto words = c.lacks.words();
    if (words.empty()) continue;
    const ModelError of = error_of_time(errors, c.lacks);
    const std::string line =
        fmt::format("# not measured: {}; times there are off by {} to {}\n", fmt::join(words, "; "),
                    signed_percent(of.low - 1), signed_percent(of.high - 1));
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

/// The table below what its columns mean, and above what cases of one step or iteration lack.
Printout printed(const std::string& columns, const std::vector<TimedCase>& list, Table table,
                 const ShippedModelErrors& errors, const std::string& note) {
  const bool has_note = std::ranges::any_of(list, has_one);
  Printout printout;
  printout.add(fmt::format("\n# 90 % intervals. {} {}\n", columns, words_of(errors)));
  printout.add(std::move(table));
  for (const std::string& line : lines_of_unmeasured(list, errors)) printout.add(line);
  if (has_note) printout.add(fmt::format("# note: {}\n", note));
  return printout;
}

Printout table_of_steps(const std::vector<TimedCase>& list, const ShippedModelErrors& errors) {
  Table table(
      "intervals", 2,
      {"topology", "policy", "step", "+-", "speedup", "sampled", "told apart", "with model"});
  add_rows(table, list, errors, row_of_steps);
  return printed(
      "+-, sampled: for another recording of as many steps; with model: also by what "
      "published speedups are off",
      list, std::move(table), errors,
      "one step has no interval; record more, or lower --tokens-per-rank");
}

Printout table_of_iterations(const std::vector<TimedCase>& list, const ShippedModelErrors& errors,
                             const std::string& noun) {
  Table table("intervals", 3,
              {"topology", "policy", "routing", noun, "time with model", "speedup", "sampled",
               "told apart", "with model"});
  add_rows(table, list, errors, row_of_iterations);
  return printed(
      fmt::format("sampled: for other {0}s, as many; with model: also by what published {0}s are "
                  "off, in pairs and one at a time",
                  noun),
      list, std::move(table), errors,
      fmt::format("one {} is not sampled; --steps 0:N simulates more", noun));
}

}  // namespace

ShippedModelErrors shipped_errors_of(const Scenario& scenario) {
  if (!scenario.iteration) return shipped_errors_of_steps();
  return scenario.serves() ? shipped_errors_of_passes() : shipped_errors_of_iterations();
}

void add_known_intervals(const Scenario& scenario, const Inputs& inputs,
                         std::vector<CaseResult>& cases) {
  try {
    add_intervals(scenario, inputs, cases, shipped_errors_of(scenario));
  } catch (const Error&) {
    return;  // they are left out
  }
}

void add_intervals(const Scenario& scenario, const Inputs& inputs, std::vector<CaseResult>& cases,
                   const ShippedModelErrors& errors) {
  add_intervals(cases, errors, unmeasured_of(scenario, inputs, cases, errors.networks));
}

void add_intervals(std::vector<CaseResult>& cases, const ShippedModelErrors& errors,
                   const std::vector<Unmeasured>& lacks) {
  const auto list = timed_cases(cases, lacks);
  for (const TimedCase& c : list) {
    const Known known = known_of(c, baseline_of(c, list), errors);
    const bool sampled = known.time && known.speedup;
    if (!sampled && !are_iterations(cases)) continue;
    cases[c.place].intervals = known.intervals;
  }
}

Printout interval_table(const std::vector<CaseResult>& cases, const ShippedModelErrors& errors,
                        const std::vector<Unmeasured>& lacks) {
  const auto list = timed_cases(cases, lacks);
  return are_iterations(cases) ? table_of_iterations(list, errors, noun_of(cases))
                               : table_of_steps(list, errors);
}

}  // namespace moesim
