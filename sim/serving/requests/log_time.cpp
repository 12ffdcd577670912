// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/requests/log_time.h"

#include <chrono>

#include "sim/base/read_number.h"

namespace moesim {
namespace {

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, status] = read_number(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Takes so many digits and what must follow them off a text.
std::optional<int> take_digits(std::string_view& text, std::size_t digits, std::string_view after) {
  const auto number = parse_integer<int>(text.substr(0, digits));
  if (!number || *number < 0 || text.size() < digits) return std::nullopt;
  text.remove_prefix(digits);
  if (after.empty()) return number;
  if (text.empty() || after.find(text.front()) == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

/// Seconds east of Greenwich of what follows a time: "", "Z", "+02:00".
std::optional<double> zone_in(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  const double sign = text.front() == '-' ? -1 : 1;
  if (text.front() != '+' && text.front() != '-') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2, ":"), minutes = take_digits(text, 2, "");
  if (!hours || !minutes || !text.empty()) return std::nullopt;
  return sign * (*hours * 3600.0 + *minutes * 60.0);
}

std::optional<double> day_and_time_in(std::string_view text) {
  const auto year = take_digits(text, 4, "-"), month = take_digits(text, 2, "-");
  const auto day = take_digits(text, 2, " T");
  const auto hour = take_digits(text, 2, ":"), minute = take_digits(text, 2, ":");
  const std::string_view rest = text.substr(0, text.find_first_not_of("0123456789."));
  const auto second = number_in(rest);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const auto zone = zone_in(text.substr(rest.size()));
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!zone || !date.ok() || *hour > 23 || *minute > 59 || *second >= 61) return std::nullopt;
  const auto days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return days * 86400.0 + *hour * 3600.0 + *minute * 60.0 + *second - *zone;
}

}  // namespace

std::optional<double> seconds_in(std::string_view text) {
  const auto number = number_in(text);
  return number ? number : day_and_time_in(text);
}

}  // namespace moesim
