// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/iteration_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/figures.h"

namespace moesim {
namespace {

std::optional<std::size_t> timed_row(const JudgedTable& t, const std::string& name) {
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
    if (t.table.figures[f].name == name && t.error(f)) return f;
  }
  return std::nullopt;
}

void add_gains(const JudgedTable& t, IterationSummary& sum) {
  for (const PublishedGain& gain : t.table.gains) {
    const auto slower = timed_row(t, gain.slower), faster = timed_row(t, gain.faster);
    if (!slower || !faster) continue;
    const auto& figures = t.table.figures;
    sum.gains.push_back({gain.slower, gain.faster,
                         t.predicted[*slower].value / t.predicted[*faster].value,
                         *figures[*slower].published / *figures[*faster].published});
  }
}

void add_row(const JudgedTable& t, std::size_t f, IterationSummary& sum) {
  const PredictedFigure& predicted = t.predicted[f];
  ++sum.rows;
  if (!predicted.there()) return;
  ++sum.predicted;
  if (const auto error = t.error(f)) sum.errors.errors.push_back(std::abs(*error));
  if (const auto error = memory_error(t, f)) sum.memory.push_back(std::abs(*error));
  if (!predicted.iteration) return;  // a frozen one
  const auto& fits = t.table.figures[f].iteration->fits;
  if (fits) sum.fits.add(*fits == predicted.iteration->fits());
  if (predicted.iteration->lacks_routing) sum.lack_routing.push_back(t.place(f));
}

bool is_kin(const PublishedIteration& a, const PublishedIteration& b) {
  return a.model == b.model && a.gpus == b.gpus && a.release == b.release;
}

}  // namespace

std::optional<double> memory_error(const JudgedTable& table, std::size_t row) {
  const auto& peak = table.table.figures[row].iteration->peak_memory;
  const auto& simulated = table.predicted[row].iteration;
  if (!peak || !simulated || !table.predicted[row].there()) return std::nullopt;
  return static_cast<double>(simulated->peak.value) / static_cast<double>(peak->value) - 1;
}

IterationSummary iteration_summary(const JudgedTable& table) {
  IterationSummary sum;
  for (std::size_t f = 0; f < table.table.figures.size(); ++f) {
    sum.timed = sum.timed && table.table.figures[f].outside.empty();
    add_row(table, f, sum);
  }
  for (const PaperPair& pair : table.pairs) sum.order.add(pair.right);
  add_gains(table, sum);
  return sum;
}

IterationSummary total_of_iterations(const std::vector<JudgedTable>& tables, bool serving) {
  IterationSummary total;
  for (const JudgedTable& t : tables) {
    if (!t.table.iterations || t.table.serving != serving) continue;
    const IterationSummary of = iteration_summary(t);
    if (!of.timed) continue;
    total.rows += of.rows;
    total.predicted += of.predicted;
    total.errors.add(of.errors);
    total.order.add(of.order);
    total.lack_routing.insert(total.lack_routing.end(), of.lack_routing.begin(),
                              of.lack_routing.end());
  }
  return total;
}

std::string total_words(const IterationSummary& total, const std::string& rows) {
  if (total.errors.errors.empty()) return "";
  std::string text = fmt::format(
      "{} of {} {} are predicted: median error {}, 90 % within {}", total.errors.errors.size(),
      total.rows, rows, percent(total.errors.median()), percent(total.errors.percentile_90()));
  if (total.order.pairs > 0) {
    text += fmt::format("; {:.0f} % of pairs in order ({} of {})",
                        100.0 * total.order.right / total.order.pairs, total.order.right,
                        total.order.pairs);
  }
  if (total.lack_routing.empty()) return text;
  return text + fmt::format("; balanced, for want of their recorded routing (--traces): {}",
                            fmt::join(total.lack_routing, ", "));
}

std::string memory_words(const IterationSummary& of) {
  std::vector<std::string> words;
  if (!of.memory.empty()) words.push_back(percent(std::ranges::max(of.memory)));
  if (of.fits.pairs > 0) {
    words.push_back(fmt::format("fits or not {} of {}", of.fits.right, of.fits.pairs));
  }
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, "; "));
}

std::string gain_words(const IterationSummary& of) {
  std::vector<std::string> words;
  for (const JudgedGain& gain : of.gains) {
    words.push_back(fmt::format("{:.2f} / {:.2f}", gain.simulated, gain.published));
  }
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

std::map<std::string, double> errors_of_speedups(const JudgedTable& table) {
  std::map<std::string, double> errors;
  const auto& figures = table.table.figures;
  const auto counts = [&](std::size_t f) { return table.error(f) && figures[f].mark().empty(); };
  for (std::size_t a = 0; a < figures.size(); ++a) {
    for (std::size_t b = 0; b < figures.size(); ++b) {
      if (a == b || !counts(a) || !counts(b)) continue;
      if (!is_kin(*figures[a].iteration, *figures[b].iteration)) continue;
      if (table.simulated_rate(a) == table.simulated_rate(b)) continue;
      errors[fmt::format("{} over {}", table.place(a), figures[b].name)] =
          (1 + *table.error(a)) / (1 + *table.error(b)) - 1;
    }
  }
  return errors;
}

}  // namespace moesim
