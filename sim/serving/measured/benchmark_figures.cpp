// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/measured/benchmark_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/lower_case.h"
#include "sim/base/read_number.h"
#include "sim/base/units.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// Seconds of the object's unit; 1 if it has none, or one of other things than time.
double scale_of(const Json& object) {
  const auto unit = object.find("unit");
  if (unit == object.end() || !unit->is_string()) return 1;
  const auto& name = unit->get_ref<const std::string&>();
  if (name == "sec" || name == "seconds") return 1;
  const double scale = seconds_scale(name);
  return scale > 0 ? scale : 1;
}

void add_list(const std::string& name, const Json& list, BenchmarkFigures& figures) {
  if (list.empty()) return;
  if (std::ranges::all_of(list, [](const Json& item) { return item.is_number(); })) {
    figures.lists[name] = list.get<std::vector<double>>();
    if (list.size() == 1) figures.numbers[name] = list.front().get<double>();
  } else if (list.front().is_string()) {
    figures.texts[name] = list.front().get<std::string>();
  }
}

void add_object(const std::string& before, const Json& object, BenchmarkFigures& figures) {
  const double scale = scale_of(object);
  for (const auto& [key, value] : object.items()) {
    const std::string name = before + letters_and_digits(key);
    figures.written[name] = key;
    if (value.is_null()) {
      figures.numbers[name] = std::numeric_limits<double>::quiet_NaN();
    } else if (value.is_number()) {
      figures.numbers[name] = value.get<double>() * scale;
    } else if (value.is_string()) {
      figures.texts[name] = value.get<std::string>();
    } else if (value.is_object()) {
      add_object(name + ".", value, figures);
    } else if (value.is_array()) {
      add_list(name, value, figures);
    }
  }
}

/// Whether commas part a number's digits in threes, "65,536.5".
bool groups_digits(std::string_view value) {
  const std::size_t end = std::min(value.find('.'), value.size());
  if (value.find(',') >= end) return false;
  std::size_t after = 0;  // digits behind the last comma
  bool any = false;
  for (const char c : value.substr(0, end)) {
    if (c == ',') {
      if (after == 0 || (any ? after != 3 : after > 3)) return false;
      any = true;
      after = 0;
    } else if (c >= '0' && c <= '9') {
      ++after;
    } else {
      return false;
    }
  }
  return after == 3;
}

}  // namespace

std::optional<double> BenchmarkFigures::number(
    std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const auto at = numbers.find(name);
    if (at != numbers.end() && !std::isnan(at->second)) return at->second;
  }
  return std::nullopt;
}

std::optional<double> BenchmarkFigures::figure(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto at = numbers.find(name);
    if (at == numbers.end()) continue;
    if (std::isfinite(at->second) && at->second >= 0) return at->second;
    left_out.insert(written.find(name)->second);
  }
  return std::nullopt;
}

std::string BenchmarkFigures::text(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const auto at = texts.find(name); at != texts.end()) return at->second;
  }
  return "";
}

BenchmarkFigures figures_of_json(const Json& object) {
  BenchmarkFigures figures;
  add_object("", object, figures);
  return figures;
}

void add_printed_figure(std::string_view line, BenchmarkFigures& figures) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = letters_and_digits(line.substr(0, colon));
  figures.written[name] = line.substr(0, colon);
  std::string_view value = line.substr(colon + 1);
  while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
  while (value.ends_with(' ') || value.ends_with('\r')) value.remove_suffix(1);
  double number = 0;
  std::string plain;
  if (groups_digits(value)) {
    plain = value;
    std::erase(plain, ',');
    value = plain;
  }
  const auto read = read_number(value.data(), value.data() + value.size(), number);
  if (read.ec == std::errc() && read.ptr == value.data() + value.size()) {
    figures.numbers[name] = number;
  } else if (!value.empty()) {
    figures.texts[name] = value;
  }
}

}  // namespace moesim
