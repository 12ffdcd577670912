// SPDX-License-Identifier: Apache-2.0
#include "sim/papers/interval_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/figures.h"
#include "sim/report/error_bars.h"

namespace moesim {
namespace {

struct Span {
  double low, high;
  bool holds(double value) const { return low <= value && value <= high; }
};

std::string words_of(const Span& span) { return fmt::format("{:.2f}-{:.2f}", span.low, span.high); }

/// The two sources of error are independent: their logarithms add as squares.
Span with_model(const Sampled& speedup, const ModelError& model) {
  const double sampling = speedup.half / speedup.value;
  const auto both = [&](double factor) { return std::hypot(sampling, std::log(factor)); };
  return {speedup.value * std::exp(-both(std::max(1.0, model.high))),
          speedup.value * std::exp(both(std::min(1.0, model.low)))};
}

/// The part of a step in which two policies differ most.
const char* most_different_part(const RunMetrics& a, const RunMetrics& b) {
  const std::pair<const char*, Seconds Breakdown::*> parts[] = {
      {"compute", &Breakdown::compute}, {"tokens", &Breakdown::tokens},
      {"weights", &Breakdown::weights}, {"gradients", &Breakdown::gradients},
      {"waiting", &Breakdown::waiting}, {"idle", &Breakdown::idle}};
  const char* name = parts[0].first;
  double most = -1;
  for (const auto& [part, time] : parts) {
    const double differ = std::abs((a.breakdown.*time - b.breakdown.*time).value);
    if (differ > most) most = differ, name = part;
  }
  return name;
}

std::string told_apart(const CaseResult& c, const CaseResult& base, const Sampled& speedup,
                       const Span& sampling, const Span& all) {
  if (&c == &base) return "";
  if (sampling.holds(1)) {
    const auto count = static_cast<std::int64_t>(c.metrics.steps.size());
    const auto needed = steps_to_tell(speedup, count);
    return needed ? fmt::format("no, {} steps", std::max(*needed, count + 1)) : "no";
  }
  if (all.holds(1)) {
    return fmt::format("measure {}", most_different_part(c.metrics, base.metrics));
  }
  return "yes";
}

std::vector<Cell> row_of(const CaseResult& c, const CaseResult& base,
                         const ShippedModelErrors& errors) {
  const auto step = sampled_mean(c.metrics.steps);
  const auto speedup = sampled_speedup(base.metrics.steps, c.metrics.steps);
  std::vector<Cell> row = {c.name.topology, c.name.policy, c.metrics.mean_step()};
  if (!step || !speedup) {
    const double ratio = base.metrics.mean_step() / c.metrics.mean_step();
    row.insert(row.end(), {Cell("-"), ratio_cell(ratio, 2), Cell("-"), Cell("-"), Cell("-")});
    return row;
  }
  const Span sampling{speedup->value - speedup->half, speedup->value + speedup->half};
  const Span all = with_model(*speedup, errors.speedups);
  const bool same = &c == &base;
  row.push_back({fmt::format("{:.1f} %", 100 * step->half / step->value), step->half, "s"});
  row.push_back(ratio_cell(speedup->value, 2));
  row.push_back(same ? "-" : words_of(sampling));
  row.push_back(told_apart(c, base, *speedup, sampling, all));
  row.push_back(same ? "-" : words_of(all));
  return row;
}

bool compares(const CaseResult& a, const CaseResult& b) {
  return a.name.topology == b.name.topology && a.name.fidelity == b.name.fidelity;
}

}  // namespace

Printout interval_table(const std::vector<CaseResult>& cases, const ShippedModelErrors& errors) {
  Table table(
      "intervals", 2,
      {"topology", "policy", "step", "+-", "speedup", "sampled", "told apart", "with model"});
  const CaseResult* base = nullptr;
  bool one_step = false;
  for (const CaseResult& c : cases) {
    if (!c.ran()) continue;
    if (base == nullptr || !compares(c, *base)) base = &c;
    table.rows.push_back(row_of(c, *base, errors));
    one_step = one_step || c.metrics.steps.size() < 2;
  }
  Printout printout;
  printout.add(
      fmt::format("\n# 90 % intervals. +-, sampled: for another recording of as many steps; with "
                  "model: also by "
                  "what published speedups are off ({} to {}; times {} to {})\n",
                  signed_percent(errors.speedups.low - 1), signed_percent(errors.speedups.high - 1),
                  signed_percent(errors.times.low - 1), signed_percent(errors.times.high - 1)));
  printout.add(std::move(table));
  if (one_step) {
    printout.add("# note: one step has no interval; record more, or lower --tokens-per-rank\n");
  }
  return printout;
}

}  // namespace moesim
