// SPDX-License-Identifier: Apache-2.0
#include "sim/papers/interval_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/report/error_bars.h"

namespace moesim {
namespace {

struct Span {
  double low, high;
  bool holds(double value) const { return low <= value && value <= high; }
};

/// A case as the table takes it.
struct TimedCase {
  std::vector<std::string> names;
  std::string of;              // cases that are compared have it in common
  std::vector<Seconds> times;  // of steps or iterations
  Seconds mean;
  std::vector<std::pair<const char*, Seconds>> parts;
};

TimedCase timed(const CaseResult& c) {
  const Breakdown& b = c.metrics.breakdown;
  return {{c.name.topology, c.name.policy},
          c.name.topology + "/" + c.name.fidelity,
          c.metrics.steps,
          c.metrics.mean_step(),
          {{"compute", b.compute},
           {"tokens", b.tokens},
           {"weights", b.weights},
           {"gradients", b.gradients},
           {"waiting", b.waiting},
           {"idle", b.idle}}};
}

TimedCase timed(const IterationCase& c) {
  TimedCase result{{c.topology, c.policy, c.routing},
                   c.topology + "/" + c.fidelity,
                   c.metrics.each,
                   c.metrics.times.iteration,
                   {}};
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    result.parts.emplace_back(name_of(part), c.metrics.times.of(part));
  }
  return result;
}

template <class Case>
std::vector<TimedCase> timed_cases(const std::vector<Case>& cases) {
  std::vector<TimedCase> result;
  for (const Case& c : cases) {
    if (c.ran()) result.push_back(timed(c));
  }
  return result;
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
  if (&c == &base) return "";
  if (std::abs(speedup.value - 1) <= speedup.half) {
    const auto count = static_cast<std::int64_t>(c.times.size());
    const auto needed = steps_to_tell(speedup, count);
    return needed ? fmt::format("no, {} steps", std::max(*needed, count + 1)) : "no";
  }
  if (all.holds(1)) return fmt::format("measure {}", most_different_part(c, base));
  return "yes";
}

/// From the speedup on.
void add_speedup(std::vector<Cell>& row, const TimedCase& c, const TimedCase& base,
                 const std::optional<Sampled>& sampled, const Span& all) {
  const bool same = &c == &base;
  const double half = sampled ? sampled->half : 0;
  const double value = sampled ? sampled->value : base.mean / c.mean;
  row.push_back(ratio_cell(value, 2));
  row.push_back(same || !sampled ? "-" : words_of({value - half, value + half}));
  row.push_back(told_apart(c, base, {value, half}, all));
  row.push_back(same ? "-" : words_of(all));
}

std::vector<Cell> row_of_steps(const TimedCase& c, const TimedCase& base,
                               const ShippedModelErrors& errors) {
  const auto step = sampled_mean(c.times);
  const auto speedup = sampled_speedup(base.times, c.times);
  std::vector<Cell> row(c.names.begin(), c.names.end());
  row.emplace_back(c.mean);
  if (!step || !speedup) {
    row.insert(row.end(),
               {Cell("-"), ratio_cell(base.mean / c.mean, 2), Cell("-"), Cell("-"), Cell("-")});
    return row;
  }
  row.push_back({fmt::format("{:.1f} %", 100 * step->half / step->value), step->half, "s"});
  add_speedup(row, c, base, speedup, with_model(*speedup, errors.speedups));
  return row;
}

std::vector<Cell> row_of_iterations(const TimedCase& c, const TimedCase& base,
                                    const ShippedModelErrors& errors) {
  const auto mean = sampled_mean(c.times);
  const auto speedup = sampled_speedup(base.times, c.times);
  const Span all = with_model(mean.value_or(Sampled{c.mean.value, 0}), errors.times);
  std::vector<Cell> row(c.names.begin(), c.names.end());
  row.emplace_back(c.mean);
  row.emplace_back(to_string(Seconds(all.low)) + " - " + to_string(Seconds(all.high)));
  add_speedup(row, c, base, speedup,
              with_model(speedup.value_or(Sampled{base.mean / c.mean, 0}), errors.speedups));
  return row;
}

using RowOf = std::vector<Cell> (*)(const TimedCase&, const TimedCase&, const ShippedModelErrors&);

void add_rows(Table& table, const std::vector<TimedCase>& cases, const ShippedModelErrors& errors,
              RowOf row_of) {
  const TimedCase* base = nullptr;
  for (const TimedCase& c : cases) {
    if (base == nullptr || c.of != base->of) base = &c;
    table.rows.push_back(row_of(c, *base, errors));
  }
}

std::string words_of(const ShippedModelErrors& errors) {
  return fmt::format("({} to {}; times {} to {})", signed_percent(errors.speedups.low - 1),
                     signed_percent(errors.speedups.high - 1), signed_percent(errors.times.low - 1),
                     signed_percent(errors.times.high - 1));
}

bool has_one(const TimedCase& c) { return c.times.size() < 2; }

/// The table below what its columns mean, and above what cases of one step or iteration lack.
Printout printed(const char* columns, Table table, const ShippedModelErrors& errors, bool has_note,
                 const char* note) {
  Printout printout;
  printout.add(fmt::format("\n# 90 % intervals. {} {}\n", columns, words_of(errors)));
  printout.add(std::move(table));
  if (has_note) printout.add(fmt::format("# note: {}\n", note));
  return printout;
}

}  // namespace

Printout interval_table(const std::vector<CaseResult>& cases, const ShippedModelErrors& errors) {
  Table table(
      "intervals", 2,
      {"topology", "policy", "step", "+-", "speedup", "sampled", "told apart", "with model"});
  const auto list = timed_cases(cases);
  add_rows(table, list, errors, row_of_steps);
  return printed(
      "+-, sampled: for another recording of as many steps; with model: also by what "
      "published speedups are off",
      std::move(table), errors, std::ranges::any_of(list, has_one),
      "one step has no interval; record more, or lower --tokens-per-rank");
}

Printout interval_table(const std::vector<IterationCase>& cases, const ShippedModelErrors& errors) {
  Table table("intervals", 3,
              {"topology", "policy", "routing", "iteration", "time with model", "speedup",
               "sampled", "told apart", "with model"});
  const auto list = timed_cases(cases);
  add_rows(table, list, errors, row_of_iterations);
  return printed(
      "sampled: for other iterations, as many; with model: also by what published "
      "iterations are off, in pairs and alone",
      std::move(table), errors, std::ranges::any_of(list, has_one),
      "one iteration is not sampled; --steps 0:N simulates more");
}

}  // namespace moesim
