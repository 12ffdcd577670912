// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "sim/print/progress_line.h"
#include "sim/sweep/unit_pool.h"
#include "sim/sweep/winners.h"

namespace moesim {
namespace {

constexpr double no_figure = std::numeric_limits<double>::quiet_NaN();

class ListedClaims : public Claims {
 public:
  explicit ListedClaims(const std::vector<std::int64_t>& units) : units_(units) {}
  std::optional<std::int64_t> next() override {
    if (next_ == units_.size()) return std::nullopt;
    return units_[next_++];
  }

 private:
  const std::vector<std::int64_t>& units_;
  std::size_t next_ = 0;
};

const SweepValue* figure_of(const SweepRow& row, const std::string& column) {
  const auto found = std::ranges::find(row.figures, column, &SweepFigure::column);
  return found == row.figures.end() ? nullptr : &found->value;
}

/// What the cluster cannot run is no answer, though `compare` simulates it: it cannot be.
SweepRow only_if_it_runs(SweepRow row) {
  const std::string why = text_in(row, cannot_run_column);
  if (row.state != sweep_ok || why.empty()) return row;
  row.state = sweep_unsuitable;
  row.reason = fmt::format("{} cannot run so: {}", text_in(row, "policy"), why);
  return row;
}

}  // namespace

double figure_number(const SweepRow& row, const std::string& column) {
  const SweepValue* value = figure_of(row, column);
  if (value == nullptr) return no_figure;
  return value->kind == SweepValue::Kind::integer ? static_cast<double>(value->integer)
                                                  : value->real;
}

std::string text_in(const SweepRow& row, const std::string& column) {
  const SweepValue* value = figure_of(row, column);
  return value == nullptr ? "" : value->text;
}

double time_in(const SweepRow& row) {
  const double step = figure_number(row, "step_s");
  return std::isnan(step) ? figure_number(row, "iteration_s") : step;
}

double memory_in(const SweepRow& row) {
  const double steps = figure_number(row, "peak_memory_bytes");
  return std::isnan(steps) ? figure_number(row, "peak_memory.bytes") : steps;
}

std::string binding_in(const SweepRow& row) {
  std::string of_step = text_in(row, "bound_by");
  if (!of_step.empty()) return of_step;
  const std::string prefix = "critical_path.bound_by_s.";
  std::string most;
  double longest = 0;
  for (const SweepFigure& figure : row.figures) {
    if (!figure.column.starts_with(prefix) || figure.value.real <= longest) continue;
    longest = figure.value.real;
    most = figure.column.substr(prefix.size());
  }
  return most;
}

std::set<std::string> links_by(const SweepRow& row, const std::string& whose_rates) {
  const std::string prefix = "token_rates.";
  std::set<std::string> links;
  for (const SweepFigure& figure : row.figures) {
    if (figure.column.starts_with(prefix) && figure.value.text == whose_rates) {
      links.insert(figure.column.substr(prefix.size()));
    }
  }
  return links;
}

std::vector<std::int64_t> spread_order(const SweepGrid& grid) {
  constexpr std::int64_t neighbours = 8;
  const std::int64_t run = grid.unit(0).iteration ? 1 : neighbours;
  std::vector<std::int64_t> firsts;
  for (std::int64_t id = 0; id < grid.size(); id += run) firsts.push_back(id);
  std::mt19937_64 random(1);
  for (std::size_t left = firsts.size(); left > 1; --left) {
    std::swap(firsts[left - 1], firsts[random() % left]);
  }
  std::vector<std::int64_t> order;
  for (const std::int64_t first : firsts) {
    for (std::int64_t id = first; id < std::min(first + run, grid.size()); ++id) {
      order.push_back(id);
    }
  }
  return order;
}

Candidates::Candidates(const SweepGrid& grid, Fidelity fidelity, const AdviseOptions& options)
    : grid_(grid.at_fidelity(fidelity)),
      fidelity_(fidelity_names[static_cast<std::size_t>(fidelity)]),
      options_(options),
      runner_(grid_, options.version, fidelity == Fidelity::analytic) {}

double Candidates::time(std::int64_t id) const { return time_if_run(id).value_or(no_figure); }

std::optional<double> Candidates::time_if_run(std::int64_t id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? std::nullopt : std::optional(time_in(found->second));
}

void Candidates::run(const std::vector<std::int64_t>& ids) {
  if (options_.stop()) return;
  ListedClaims claims(ids);
  const int workers = static_cast<int>(std::min<std::int64_t>(options_.workers, std::ssize(ids)));
  UnitPool pool({claims, [](std::int64_t) { return true; }, runner_, workers});
  ProgressLine progress;
  std::int64_t done = 0;
  while (!pool.done()) {
    for (SweepRow& row : pool.wait()) {
      const std::int64_t id = row.id;
      rows_[id] = only_if_it_runs(std::move(row));
      ++done;
    }
    if (options_.stop()) return;
    const auto count = static_cast<double>(done);
    progress.show(fmt::format("{} of {} candidates at {},", done, ids.size(), fidelity_),
                  count / static_cast<double>(ids.size()), count, "candidates");
  }
}

}  // namespace moesim
