// SPDX-License-Identifier: Apache-2.0
#include "sim/base/container_log.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/json.h"

namespace moesim {

std::optional<std::string> container_lines(const std::string& text, const std::string& file) {
  if (!text.starts_with("{\"log\":")) return std::nullopt;
  std::string printed;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto kept = parse_json(line, {file, number, "each line of a container's log is JSON"});
    const auto log = kept.find("log");
    if (log == kept.end() || !log->is_string()) return std::nullopt;
    printed += log->get<std::string>();
  }
  return printed;
}

}  // namespace moesim
