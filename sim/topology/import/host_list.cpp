// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/host_list.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

constexpr std::size_t most_hosts = 200'000;

/// The parts between commas that are outside brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) break;
    if (c != ',' || (depth > 0 && i < list.size())) continue;
    if (i > begin) parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  if (depth != 0) throw Error(fmt::format("'{}': brackets do not match", list));
  return parts;
}

long number_of(std::string_view text, std::string_view all) {
  const long number = parse_integer<long>(text).value_or(-1);
  if (text.size() > 9 || number < 0) {
    throw Error(fmt::format("'{}': '{}' is not a number", all, text));
  }
  return number;
}

/// The numbers of "001-003,7", as wide as they are written.
std::vector<std::string> numbers_in(std::string_view ranges, std::string_view all) {
  std::vector<std::string> numbers;
  for (const std::string_view range : parts_of(ranges)) {
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const long first = number_of(low, all);
    const long last =
        dash == std::string_view::npos ? first : number_of(range.substr(dash + 1), all);
    if (last < first) throw Error(fmt::format("'{}': {} comes before {}", all, last, first));
    if (static_cast<std::size_t>(last - first) >= most_hosts) {
      throw Error(fmt::format("'{}': more than {} hosts", all, most_hosts));
    }
    for (long n = first; n <= last; ++n) {
      numbers.push_back(fmt::format("{:0{}}", n, low.size()));
    }
  }
  return numbers;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (std::string_view part : parts_of(list)) {
    const std::string_view whole = part;
    std::vector<std::string> names = {""};
    while (!part.empty()) {
      const std::size_t open = part.find('[');
      for (std::string& name : names) name += part.substr(0, open);
      if (open == std::string_view::npos) break;
      const std::size_t close = part.find(']', open);
      const auto numbers = numbers_in(part.substr(open + 1, close - open - 1), whole);
      if (names.size() * numbers.size() > most_hosts) {
        throw Error(fmt::format("'{}': more than {} hosts", whole, most_hosts));
      }
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& number : numbers) longer.push_back(name + number);
      }
      names = std::move(longer);
      part = part.substr(close + 1);
    }
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (hosts.size() > most_hosts) {
      throw Error(fmt::format("'{}': more than {} hosts", list, most_hosts));
    }
  }
  return hosts;
}

}  // namespace moesim
