// SPDX-License-Identifier: Apache-2.0
// Reads measured steps, and what is to be fitted to them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/units.h"
#include "sim/evidence/step_fit.h"

namespace moesim {
namespace {

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
