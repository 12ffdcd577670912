// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/step_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/units.h"

namespace moesim {
namespace {

constexpr double probe = 0.02;    // of a value's logarithm, for slopes
constexpr double settled = 1e-3;  // the same, of a step of the search
constexpr int most_rounds = 20;
constexpr double no_effect = 1e-6;  // of a slope

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

/// Solves a x = b by elimination; `a` is symmetric and positive.
Vector solved(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t row = i + 1; row < n; ++row) {
      const double part = a[row][i] / a[i][i];
      for (std::size_t k = i; k < n; ++k) a[row][k] -= part * a[i][k];
      b[row] -= part * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

double squares_of(const Vector& errors) {
  double sum = 0;
  for (const double error : errors) sum += error * error;
  return sum;
}

class StepSearch {
 public:
  StepSearch(const std::vector<TimedStep>& steps, std::vector<FittedValue> values,
             const StepTime& time)
      : steps_(steps), values_(std::move(values)), time_(time) {
    const auto fitted = std::ranges::count_if(steps, &TimedStep::is_fitted);
    if (fitted < std::ssize(values_)) {
      throw Error(
          fmt::format("{} values cannot be fitted to {} measured steps", values_.size(), fitted),
          "measure other settings, or fit fewer values");
    }
    for (FittedValue& value : values_) {
      if (value.value == 0) value.value = std::sqrt(value.low * value.high);
    }
  }

  std::vector<FittedValue> run() && {
    Vector errors = errors_of(values_);
    double damping = 1e-3;
    Matrix slopes;
    for (int round = 0; round < most_rounds; ++round) {
      slopes = slopes_at(errors);
      double moved = 0;
      // Smaller steps until one is better.
      for (bool better = false; !better && damping < 1e6; damping *= better ? 0.1 : 10) {
        const std::vector<FittedValue> next = stepped(slopes, errors, damping);
        const Vector there = errors_of(next);
        better = squares_of(there) < squares_of(errors);
        if (!better) continue;
        for (std::size_t v = 0; v < next.size(); ++v) {
          moved = std::max(moved, std::abs(std::log(next[v].value / values_[v].value)));
        }
        values_ = next;
        errors = there;
      }
      if (moved < settled) break;
    }
    check_apart(slopes);
    return std::move(values_);
  }

 private:
  Vector errors_of(const std::vector<FittedValue>& values) const {
    Vector errors;
    for (const TimedStep& step : steps_) {
      if (step.is_fitted()) errors.push_back(std::log(time_(step, values) / *step.time));
    }
    return errors;
  }

  /// [value][step], towards the middle of the value's range.
  Matrix slopes_at(const Vector& errors) const {
    Matrix slopes;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      std::vector<FittedValue> near = values_;
      const bool upper = near[v].value > std::sqrt(near[v].low * near[v].high);
      const double by = upper ? -probe : probe;
      near[v].value *= std::exp(by);
      Vector& slope = slopes.emplace_back(errors_of(near));
      for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (slope[i] - errors[i]) / by;
      if (squares_of(slope) > no_effect * no_effect) continue;
      throw Error(fmt::format("'{}' changes none of the fitted steps", near[v].key),
                  "fit a value on which they depend, or measure steps that do");
    }
    return slopes;
  }

  /// Two values whose slopes are parallel could change places.
  void check_apart(const Matrix& slopes) const {
    constexpr double parallel = 0.9999;  // a cosine
    for (std::size_t a = 0; a < slopes.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < slopes[a].size(); ++i) product += slopes[a][i] * slopes[b][i];
        const double lengths = std::sqrt(squares_of(slopes[a]) * squares_of(slopes[b]));
        if (std::abs(product) < parallel * lengths) continue;
        throw Error(fmt::format("'{}' and '{}' change the fitted steps alike", values_[b].key,
                                values_[a].key),
                    "fit one of them, or measure steps in which one counts more");
      }
    }
  }

  std::vector<FittedValue> stepped(const Matrix& slopes, const Vector& errors,
                                   double damping) const {
    const std::size_t n = values_.size();
    Matrix normal(n, Vector(n));
    Vector down(n);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t i = 0; i < errors.size(); ++i) {
        down[a] -= slopes[a][i] * errors[i];
        for (std::size_t b = 0; b < n; ++b) normal[a][b] += slopes[a][i] * slopes[b][i];
      }
    }
    for (std::size_t a = 0; a < n; ++a) normal[a][a] *= 1 + damping;
    const Vector step = solved(normal, down);
    std::vector<FittedValue> next = values_;
    for (std::size_t v = 0; v < n; ++v) {
      next[v].value = std::clamp(next[v].value * std::exp(step[v]), next[v].low, next[v].high);
    }
    return next;
  }

  const std::vector<TimedStep>& steps_;
  std::vector<FittedValue> values_;
  const StepTime& time_;
};

constexpr const char* form =
    "a line of column names: seconds, keys of a scenario such as parallel.tp, name and use";

std::optional<double> positive_number(const std::string& text) {
  NumberWithUnit value;
  const bool plain = split_unit(text, value) && value.unit.empty();
  if (!plain || !(value.number > 0) || value.number > 1e12) return std::nullopt;
  return value.number;
}

class TimedStepReader {
 public:
  explicit TimedStepReader(const std::string& path) : file_(path) {
    std::string line;
    if (!file_.next(line)) throw error_in(path, "holds no measured steps", form);
    separator_ = separator_of(line);
    columns_ = cells_of(line, separator_);
    for (std::size_t c = 0; c < columns_.size(); ++c) check_column(c);
    if (std::ranges::find(columns_, "seconds") == columns_.end()) {
      throw error_in(path, "has no column 'seconds'", form, file_.line_number());
    }
  }

  std::vector<TimedStep> read() {
    std::vector<TimedStep> steps;
    for (std::string line; file_.next(line);) {
      if (line.starts_with('#')) continue;
      const std::vector<std::string> cells = cells_of(line, separator_);
      if (cells.size() != columns_.size()) {
        throw at_line(fmt::format("{} cells under {} columns", cells.size(), columns_.size()),
                      "cells with separators in them are quoted");
      }
      TimedStep& step = steps.emplace_back();
      step.name = fmt::format("line {}", file_.line_number());
      for (std::size_t c = 0; c < cells.size(); ++c) read_cell(columns_[c], cells[c], step);
    }
    if (steps.empty()) throw error_in(file_.path(), "has column names and no measured steps", form);
    return steps;
  }

 private:
  Error at_line(const std::string& what, const std::string& hint) const {
    return error_in(file_.path(), what, hint, file_.line_number());
  }

  void check_column(std::size_t c) const {
    const std::string& name = columns_[c];
    if (!is_path(name)) throw at_line(fmt::format("'{}' cannot name a column", name), form);
    if (std::find(columns_.begin(), columns_.begin() + static_cast<std::ptrdiff_t>(c), name) !=
        columns_.begin() + static_cast<std::ptrdiff_t>(c)) {
      throw at_line(fmt::format("has the column '{}' twice", name), "leave one of them out");
    }
  }

  void read_cell(const std::string& column, const std::string& cell, TimedStep& step) const {
    if (column == "seconds") {
      if (cell == "oom") return;
      const auto seconds = positive_number(cell);
      if (!seconds) {
        throw at_line(fmt::format("'seconds' is '{}'", cell),
                      "a number above 0, or oom if it did not fit into memory");
      }
      step.time = Seconds(*seconds);
    } else if (column == "name") {
      if (!cell.empty()) step.name = cell;
    } else if (column == "use") {
      step.held_out = cell == "predict";
      if (!step.held_out && cell != "fit" && !cell.empty()) {
        throw at_line(fmt::format("'use' is '{}'", cell), "fit or predict");
      }
    } else if (!cell.empty()) {
      step.changes.push_back(
          {column, cell,
           fmt::format("{}:{}: {}={}", file_.path(), file_.line_number(), column, cell), false});
    }
  }

  LineFile file_;
  char separator_ = ',';
  std::vector<std::string> columns_;
};

}  // namespace

bool FittedValue::at_its_edge() const {
  constexpr double near = 1e-6;
  return value <= low * (1 + near) || value >= high * (1 - near);
}

std::string FittedValue::text() const {
  return fmt::format("{:.4g}{}{}", value, unit.empty() ? "" : " ", unit);
}

Override FittedValue::change() const { return {key, text(), "", false}; }

std::vector<FittedValue> fit_steps(const std::vector<TimedStep>& steps,
                                   std::vector<FittedValue> values, const StepTime& time) {
  return StepSearch(steps, std::move(values), time).run();
}

std::vector<TimedStep> read_measured_steps(const std::string& path) {
  return TimedStepReader(path).read();
}

FittedValue parse_fitted_value(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return Error(fmt::format("--fit {}: {}", text, why),
                 "KEY=LOW:HIGH UNIT, such as software.kept.gh100.bf16=0.3:1 or "
                 "'topology.levels.0.bandwidth=1:25 GB/s'");
  };
  const std::size_t equal = text.find('='), colon = text.find(':', equal);
  if (equal == std::string::npos || colon == std::string::npos) {
    throw refuse("no range of a key");
  }
  FittedValue value;
  value.key = text.substr(0, equal);
  if (!is_path(value.key)) throw refuse("'" + value.key + "' cannot be a key");
  const auto low = positive_number(text.substr(equal + 1, colon - equal - 1));
  NumberWithUnit high;
  split_unit(text.substr(colon + 1), high);
  if (!low || !(high.number > *low)) throw refuse("no range of numbers above 0");
  value.low = *low;
  value.high = high.number;
  value.unit = high.unit;
  return value;
}

}  // namespace moesim
