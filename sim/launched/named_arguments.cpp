// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/named_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moesim {

std::string NamedArgument::text() const { return fmt::format("{}", fmt::join(values, " ")); }

void NamedArguments::add(NamedArgument argument) {
  const auto same = std::ranges::find(arguments_, argument.name, &NamedArgument::name);
  if (same != arguments_.end()) arguments_.erase(same);
  constexpr std::size_t most = 10'000;  // Megatron-LM has some 900
  if (arguments_.size() >= most) {
    throw error_in(file_, fmt::format("more than {} arguments", most), "", argument.line);
  }
  arguments_.push_back(std::move(argument));
}

const NamedArgument* NamedArguments::find(const std::string& name) const {
  const auto found = std::ranges::find(arguments_, name, &NamedArgument::name);
  return found == arguments_.end() ? nullptr : &*found;
}

Error NamedArguments::error(const NamedArgument& argument, const std::string& message,
                            const std::string& hint) const {
  std::string line;
  std::size_t at = argument.file.empty() ? 0 : source_.size();
  for (int number = 1; at < source_.size(); ++number) {
    const std::size_t end = std::min(source_.find('\n', at), source_.size());
    if (number == argument.line) line = source_.substr(at, end - at);
    at = end + 1;
  }
  const std::string& file = argument.file.empty() ? file_ : argument.file;
  return Error({{Severity::error, file, argument.line, 0, message, line, hint}});
}

std::string argument_name(std::string_view written) {
  written.remove_prefix(std::min(written.find_first_not_of('-'), written.size()));
  std::string name(written);
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace moesim
