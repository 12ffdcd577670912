// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/argument_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "sim/base/read_number.h"
#include "sim/launched/shell_expansion.h"

namespace moesim {
namespace {

/// Calls `see` with each name until it says true.
template <class See>
bool any_name(std::string_view names, const See& see) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (see(names.substr(0, end))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

bool is_false(const NamedArgument& argument) {
  const std::string value = argument.text();
  return value == "false" || value == "False" || value == "0";
}

void take(const ArgumentRow& row, const NamedArgument& argument, const LaunchFile& launch,
          Launched& launched) {
  const std::string key(row.key);
  switch (row.use) {
    case ArgumentUse::count:
      if (argument.text() == "false") return;
      return launched.set(key, std::to_string(number_of(launch, argument)));
    case ArgumentUse::value:
      require_known(launch, argument);
      return launched.set(key, argument.text());
    case ArgumentUse::on:
      return launched.set(key, is_false(argument) ? "false" : "true");
    case ArgumentUse::off:
      return launched.set(key, is_false(argument) ? "true" : "false");
    case ArgumentUse::size:
      if (argument.text() == "false") return;
      launched.sizes.push_back(
          {key, static_cast<double>(number_of(launch, argument, 0)), argument.line});
      return;
    case ArgumentUse::read:
    case ArgumentUse::ignored:
      return;
    case ArgumentUse::left_out:
      if (is_false(argument) ||
          any_name(row.key, [&](auto same) { return same == argument.text(); })) {
        return;
      }
      return launched.leave_out(argument);
  }
}

/// "32k" and "25.6k" (decimal), "32K" (binary), as vLLM reads numbers.
std::optional<std::int64_t> abbreviated(std::string_view text) {
  constexpr std::string_view decimal = "kmgt", binary = "KMGT";
  if (text.size() < 2 || text.size() > 20) return std::nullopt;
  const char unit = text.back();
  text.remove_suffix(1);
  if (const std::size_t power = binary.find(unit); power != binary.npos) {
    const auto number = parse_integer<std::int64_t>(text);
    constexpr std::int64_t most = std::int64_t{1} << 20;
    if (!number || *number < 0 || *number > most) return std::nullopt;
    return *number << (10 * (power + 1));
  }
  const std::size_t power = decimal.find(unit);
  if (power == decimal.npos || text.find_first_not_of("0123456789.") != text.npos) return {};
  double number = 0;
  const auto read = read_number(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  number *= std::pow(1000.0, static_cast<double>(power + 1));
  if (number > 1e15) return std::nullopt;
  return static_cast<std::int64_t>(number + 1e-6);
}

/// The flag of the table that one may be misspelt for; empty: none is near.
std::string near_flag(ArgumentTable table, const std::string& name) {
  std::vector<std::string> known;
  for (const ArgumentRow& row : table) {
    any_name(row.names, [&](std::string_view each) {
      if (!each.ends_with('*')) known.emplace_back(each);
      return false;
    });
  }
  constexpr std::size_t letters = 2;  // that are missing or too many
  const std::string near = nearest(name, known);
  const auto longer = std::max(near.size(), name.size()),
             shorter = std::min(near.size(), name.size());
  return near.size() < 4 || longer - shorter > letters ? "" : near;
}

std::string why_unknown(const LaunchFile& launch, const std::string& value) {
  const std::string name = unknown_name(value);
  const auto found = launch.script.variables.find(name);
  if (name.empty()) return "what a command prints says it";
  if (found != launch.script.variables.end() && !found->second.undecided.empty()) {
    return found->second.undecided;
  }
  return fmt::format("nothing in the file sets {}", name);
}

}  // namespace

const ArgumentRow* row_of(ArgumentTable table, const std::string& name) {
  const auto found = std::ranges::find_if(table, [&](const ArgumentRow& row) {
    return any_name(row.names, [&](std::string_view known) {
      return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1))
                                  : name == known;
    });
  });
  return found == table.end() ? nullptr : &*found;
}

Takes takes_of(ArgumentTable table, const std::string& name) {
  const ArgumentRow* row = row_of(table, name);
  return row == nullptr ? Takes::one : row->takes;
}

void take_arguments(ArgumentTable table, const LaunchFile& launch, Launched& launched) {
  for (const NamedArgument& argument : launch.arguments.all()) {
    const ArgumentRow* row = row_of(table, argument.name);
    if (argument.maybe && (row == nullptr || row->use != ArgumentUse::ignored)) {
      launched.assume(fmt::format("{}: line {} has it under a condition that is not known",
                                  argument.written, argument.line));
    }
    if (row != nullptr) {
      take(*row, argument, launch, launched);
    } else if (!launch.dump && !is_false(argument)) {
      launched.leave_out(argument);
      const std::string near = near_flag(table, argument.name);
      if (near.empty()) continue;
      launched.assume(fmt::format("{} is unknown here as a flag of {}; did you mean --{}?",
                                  argument.written, name_of(launch.software), near));
    }
  }
}

const NamedArgument* argument_of(const LaunchFile& launch, std::string_view names) {
  const NamedArgument* found = nullptr;
  any_name(names, [&](std::string_view name) {
    found = launch.arguments.find(std::string(name));
    return found != nullptr;
  });
  return found;
}

bool is_on(const LaunchFile& launch, std::string_view names) {
  const NamedArgument* argument = argument_of(launch, names);
  return argument != nullptr && !is_false(*argument);
}

void require_known(const LaunchFile& launch, const NamedArgument& argument) {
  const std::string value = argument.text();
  if (argument.values.empty()) {
    throw launch.arguments.error(argument, fmt::format("'{}' has no value", argument.written), "");
  }
  if (!has_unknown(value)) return;
  const std::string name = unknown_name(value);
  throw launch.arguments.error(
      argument,
      fmt::format("'{}': its value is not known, as {}", argument.written,
                  why_unknown(launch, value)),
      name.empty()
          ? "write the value in its place"
          : fmt::format("write {}=VALUE at the top of the file, or the value in its place", name));
}

std::int64_t number_of(const LaunchFile& launch, const NamedArgument& argument,
                       std::int64_t least) {
  require_known(launch, argument);
  auto number = parse_integer<std::int64_t>(argument.text());
  if (!number && launch.software == LaunchSoftware::vllm) number = abbreviated(argument.text());
  constexpr std::int64_t most = 1'000'000'000;
  if (number && *number >= least && *number <= most) return *number;
  throw launch.arguments.error(
      argument, fmt::format("'{}' is not a whole number from {} on", argument.text(), least),
      fmt::format("--{} N", argument.name));
}

std::int64_t count_of(const LaunchFile& launch, std::string_view names, std::int64_t absent,
                      std::int64_t least) {
  const NamedArgument* argument = argument_of(launch, names);
  if (argument == nullptr || argument->text() == "false") return absent;
  return number_of(launch, *argument, least);
}

std::string word_of(const LaunchFile& launch, std::string_view names, const std::string& absent) {
  const NamedArgument* argument = argument_of(launch, names);
  if (argument == nullptr || argument->text() == "false") return absent;
  require_known(launch, *argument);
  return argument->text();
}

}  // namespace moesim
