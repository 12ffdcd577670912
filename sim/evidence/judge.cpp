// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/judge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "sim/linkfit/robust.h"

namespace moesim {
namespace {

/// Figures that can be in an order: times, or speedups over one variant.
bool comparable(const PaperFigure& a, const PaperFigure& b) {
  if (a.relative() != b.relative()) return false;
  return !a.relative() || (a.over == b.over && a.measure == b.measure);
}

bool is_contested(const PaperFigure& a, const PaperFigure& b) {
  return a.setting == b.setting && a.measure == b.measure && a.variant != b.variant;
}

bool differ(double a, double b) {
  return std::max(a, b) > (1 + paper_order_margin) * std::min(a, b);
}

bool same_order(double a, double b, double other_a, double other_b) {
  return (a < b && other_a < other_b) || (a > b && other_a > other_b);
}

bool counts(const JudgedTable& t, std::size_t f) {
  return t.error(f) && t.table.figures[f].mark().empty();
}

void add_pair(JudgedTable& t, std::size_t i, std::size_t j) {
  const PaperFigure &a = t.table.figures[i], &b = t.table.figures[j];
  if (!comparable(a, b) || !differ(*a.published, *b.published)) return;
  t.pairs.push_back(
      {i, j, t.table.contested && is_contested(a, b),
       same_order(*a.published, *b.published, t.predicted[i].value, t.predicted[j].value)});
}

/// A speedup says who is ahead of whom by itself.
void add_baseline(JudgedTable& t, std::size_t i) {
  const PaperFigure& figure = t.table.figures[i];
  if (!figure.over || !differ(*figure.published, 1)) return;
  t.pairs.push_back(
      {i, {}, t.table.contested, same_order(*figure.published, 1, t.predicted[i].value, 1)});
}

/// What iterations are in order by, where rows have other batches, models and GPUs: model flop per
/// second and GPU. Passes of serving are by their time.
double rate_of(const JudgedTable& t, std::size_t f, double seconds) {
  if (t.table.serving) return 1 / seconds;
  const PublishedIteration& iteration = *t.table.figures[f].iteration;
  const auto& simulated = t.predicted[f].iteration;
  const double flop = simulated && simulated->flop_per_token > 0 ? simulated->flop_per_token : 1;
  return static_cast<double>(iteration.tokens) * flop / iteration.gpus / seconds;
}

/// Whether two passes are of one batch, so that only machines and settings say which is faster.
bool same_batch(const JudgedTable& t, std::size_t i, std::size_t j) {
  const auto batch = [&](std::size_t f) {
    std::map<std::string, std::string> said;
    for (const Override& flag : t.table.settings[t.table.figures[f].setting].flags) {
      if (flag.path.starts_with("serving.batch")) said[flag.path] = flag.value;
    }
    return said;
  };
  return batch(i) == batch(j);
}

void add_iteration_pair(JudgedTable& t, std::size_t i, std::size_t j) {
  const auto published = [&](std::size_t f) {
    return rate_of(t, f, *t.table.figures[f].published);
  };
  if (t.table.serving && !same_batch(t, i, j)) return;
  if (t.simulated_rate(i) == t.simulated_rate(j) || !differ(published(i), published(j))) return;
  t.pairs.push_back(
      {i, j, false,
       same_order(published(i), published(j), t.simulated_rate(i), t.simulated_rate(j))});
}

/// Of rows that something was fitted to, too: their order was not.
void find_iteration_pairs(JudgedTable& t) {
  const auto is_timed = [&](std::size_t f) {
    return t.error(f) && t.table.figures[f].outside.empty();
  };
  for (std::size_t i = 0; i < t.table.figures.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (is_timed(i) && is_timed(j)) add_iteration_pair(t, i, j);
    }
  }
}

void find_pairs(JudgedTable& t) {
  if (t.table.headlines) return;
  if (t.table.iterations) return find_iteration_pairs(t);
  for (std::size_t i = 0; i < t.table.figures.size(); ++i) {
    if (!counts(t, i)) continue;
    add_baseline(t, i);
    for (std::size_t j = 0; j < i; ++j) {
      if (counts(t, j)) add_pair(t, i, j);
    }
  }
}

}  // namespace

double ErrorSummary::median() const { return errors.empty() ? 0 : moesim::median(errors); }

double ErrorSummary::percentile_90() const {
  if (errors.empty()) return 0;
  std::vector<double> sorted = errors;
  std::ranges::sort(sorted);
  return sorted[(sorted.size() * 9 + 9) / 10 - 1];
}

void ErrorSummary::add(const ErrorSummary& other) {
  errors.insert(errors.end(), other.errors.begin(), other.errors.end());
}

void PaperSummary::add(const PaperSummary& other) {
  absolute.add(other.absolute);
  relative.add(other.relative);
  all.add(other.all);
  contested.add(other.contested);
  figures += other.figures;
  predicted += other.predicted;
  fitted += other.fitted;
  outside += other.outside;
}

std::optional<double> JudgedTable::error(std::size_t figure) const {
  const auto& published = table.figures[figure].published;
  if (!published || !predicted[figure].there()) return std::nullopt;
  const double value = predicted[figure].value;
  const double most = table.figures[figure].up_to.value_or(*published);
  if (*published < value && value < most) return 0;
  return value / (value < most ? *published : most) - 1;
}

double JudgedTable::simulated_rate(std::size_t row) const {
  return rate_of(*this, row, predicted[row].value);
}

std::optional<bool> JudgedTable::in_order(std::size_t figure) const {
  const PaperFigure& f = table.figures[figure];
  if (!f.says_order() || !predicted[figure].there()) return std::nullopt;
  return f.in_order(predicted[figure].value);
}

PaperSummary JudgedTable::summary() const {
  PaperSummary sum;
  for (std::size_t f = 0; f < table.figures.size(); ++f) {
    if (!table.figures[f].ordered.empty()) continue;
    ++sum.figures;
    sum.predicted += predicted[f].there() ? 1 : 0;
    sum.fitted += table.figures[f].fitted.empty() ? 0 : 1;
    sum.outside += table.figures[f].outside.empty() ? 0 : 1;
    if (!counts(*this, f)) continue;
    auto& kind = table.figures[f].relative() ? sum.relative : sum.absolute;
    kind.errors.push_back(std::abs(*error(f)));
  }
  for (const PaperPair& pair : pairs) {
    sum.all.add(pair.right);
    if (pair.contested) sum.contested.add(pair.right);
  }
  return sum;
}

std::vector<JudgedTable> judged(std::vector<PaperTable> tables,
                                std::vector<PredictedTable> predicted) {
  std::vector<JudgedTable> result;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    JudgedTable& judged =
        result.emplace_back(JudgedTable{std::move(tables[t]), std::move(predicted[t]), {}});
    for (std::size_t f = 0; f < judged.table.figures.size(); ++f) {
      const auto& published = judged.predicted[f].published;
      if (published) judged.table.figures[f].published = published;
    }
    find_pairs(judged);
  }
  return result;
}

std::vector<JudgedTable> with_those_outside(std::vector<JudgedTable> tables) {
  for (JudgedTable& t : tables) {
    for (PaperFigure& figure : t.table.figures) figure.outside.clear();
    t.pairs.clear();
    find_pairs(t);
  }
  return tables;
}

PaperSummary total_of(const std::vector<JudgedTable>& tables) {
  PaperSummary total;
  for (const JudgedTable& t : tables) {
    if (t.counts_with_others()) total.add(t.summary());
  }
  return total;
}

}  // namespace moesim
