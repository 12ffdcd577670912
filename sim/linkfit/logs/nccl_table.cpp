// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/nccl_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/linkfit/logs/formats.h"

namespace moesim {
namespace {

/// Half a unit of the last digit of a printed number, relative to it: "1.007e+07", "0.03".
double rounding_of(const std::string& word, double value) {
  const std::size_t exponent = word.find('e'), point = word.find('.');
  const std::size_t digits = std::min(exponent, word.size());
  const double decimals = point < digits ? static_cast<double>(digits - point - 1) : 0;
  const double power =
      exponent < word.size() ? std::strtod(word.c_str() + exponent + 1, nullptr) : 0;
  return 0.5 * std::pow(10, power - decimals) / value;
}

}  // namespace

bool names_algorithm(const std::string& column) {
  return column == "algo" || column == "proto" || column == "nchannels";
}

NcclTable::NcclTable(const std::vector<std::string>& columns, bool in_place,
                     const std::string& file, int line) {
  const auto is_time = [](const std::string& c) { return c == "time" || c == "cputime"; };
  if (std::ranges::count(columns, "cputime") > 0) {
    throw error_in(file, cpu_times, cpu_times_hint, line);
  }
  timestamps_ = columns.back() == "timestamp";
  has_root_ = std::ranges::count(columns, "root") > 0;
  has_redop_ = std::ranges::count(columns, "redop") + std::ranges::count(columns, "op") > 0;
  names_.assign(std::ranges::find_if(columns, is_time),
                std::ranges::find_if(columns, names_algorithm));
  words_ = names_.size() + (timestamps_ ? 1 : 0);
  std::vector<std::size_t> times;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (is_time(names_[i])) times.push_back(i);
  }
  const std::size_t half = in_place ? 1 : 0;
  const bool sound = times.size() > half && times[half] + 3 < names_.size() &&
                     names_[times[half] + 1] == "algbw" && names_[times[half] + 2] == "busbw";
  if (!sound) {
    throw error_in(file, "lacks the columns time, algbw, busbw and #wrong",
                   in_place ? "some tests have no in-place times"
                            : "give the output of nccl-tests as it was printed",
                   line);
  }
  time_ = times[half];
  out_of_place_ = times.front();
  in_place_ = times.back();
  const std::string& check = names_[time_ + 3];
  counts_wrong_ = check == "#wrong";
  if (check == "res") to_microseconds_ = 1e3;  // before 2.0
}

void NcclTable::add(const std::vector<std::string>& row, const std::string& file, int line,
                    NcclTest& test) const {
  const auto value = [&](std::size_t column) {
    return number_in(file, line, "'" + names_[column] + "'", row[column + 1]);
  };
  const std::size_t other = time_ == out_of_place_ ? in_place_ : out_of_place_;
  if (row[time_ + 1] == "N/A" && row[other + 1] != "N/A") {
    const bool in_place = time_ != out_of_place_;
    throw error_in(file, in_place ? "has no in-place times" : "has no out-of-place times",
                   in_place ? "leave out --in-place" : "--in-place takes its in-place times", line);
  }
  NcclRow result{number_in(file, line, "'size'", row[0]), value(time_) * to_microseconds_,
                 value(time_ + 1), value(time_ + 2), line};
  // Times of seven digits have an exponent and two to four digits: the bandwidth may have more.
  const std::string &printed = row[time_ + 1], &algbw = row[time_ + 2];
  if (printed.find('e') != std::string::npos && result.algbw > 0 &&
      rounding_of(algbw, result.algbw) < rounding_of(printed, result.microseconds)) {
    result.microseconds = result.size / result.algbw / 1e3;
  }
  const std::string& check = row[time_ + 4];
  if (check == "N/A" || check.ends_with("nan")) {
    test.checked = false;
  } else if (check.ends_with('*') || (counts_wrong_ && value(time_ + 3) != 0)) {
    throw error_in(file, fmt::format("{} wrong elements at size {}", check, row[0]),
                   wrong_results_hint, line);
  }
  const auto checks = [&](std::size_t time) {
    return time + 3 < names_.size() && row[time + 4] != "N/A";
  };
  test.marks.checked = checks(out_of_place_);
  test.marks.checked_in_place = checks(in_place_);
  if (timestamps_) test.date = row[words_ - 1];
  test.rows.push_back(result);
}

}  // namespace moesim
