// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/row.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/read_number.h"

namespace moesim {

SweepValue integer_value(std::int64_t value) { return {SweepValue::Kind::integer, value}; }
SweepValue real_value(double value) { return {SweepValue::Kind::real, 0, value}; }
SweepValue text_value(const std::string& text) { return {SweepValue::Kind::text, 0, 0, text}; }

SweepValue value_of(const std::string& text) {
  if (const auto integer = parse_integer<std::int64_t>(text)) return integer_value(*integer);
  const char *begin = text.data(), *end = begin + text.size();
  double real = 0;
  const bool digits =
      !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (const auto read = read_number(begin, end, real);
      digits && read.ec == std::errc() && read.ptr == end) {
    return real_value(real);
  }
  return text_value(text);
}

void add_figure(SweepRow& row, const std::string& column, SweepValue value) {
  if (std::ranges::find(row.figures, column, &SweepFigure::column) != row.figures.end()) return;
  row.figures.push_back({column, std::move(value)});
}

void add_figures(SweepRow& row, const nlohmann::ordered_json& object, const std::string& prefix) {
  constexpr std::uint64_t most_integer = std::numeric_limits<std::int64_t>::max();
  for (const auto& [key, value] : object.items()) {
    const std::string column = prefix + key;
    if (value.is_object()) {
      add_figures(row, value, column + ".");
    } else if (value.is_boolean()) {
      add_figure(row, column, integer_value(value.get<bool>() ? 1 : 0));
    } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > most_integer) {
      add_figure(row, column, real_value(value.get<double>()));
    } else if (value.is_number_integer()) {
      add_figure(row, column, integer_value(value.get<std::int64_t>()));
    } else if (value.is_number()) {
      add_figure(row, column, real_value(value.get<double>()));
    } else if (value.is_string()) {
      add_figure(row, column, text_value(value.get<std::string>()));
    }
  }
}

}  // namespace moesim
