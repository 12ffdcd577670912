// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <utility>

#include "sim/topology/import/import.h"

namespace moesim {
namespace {

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(" \t-"));
  text.erase(text.find_last_not_of(" \t\r") + 1);
  return text;
}

}  // namespace

std::vector<std::string> assumed_in(const std::string& text) {
  std::vector<std::string> found;
  std::vector<std::pair<std::size_t, std::string>> open;  // indent and key of the blocks around
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::size_t comment = line.find("# ");
    const std::size_t colon = line.find(':');
    if (indent == std::string::npos || indent == comment || colon > comment) continue;
    while (!open.empty() && open.back().first >= indent) open.pop_back();
    const std::string key = trimmed(line.substr(0, colon));
    const std::string value =
        trimmed(line.substr(colon + 1, comment - std::min(comment, colon) - 1));
    if (value.empty()) {
      open.emplace_back(indent, key);
      continue;
    }
    if (comment == std::string::npos || line.find("# assumed") == std::string::npos) continue;
    std::string path;
    for (const auto& [at, outer] : open) path += outer + ".";
    found.push_back(path + key + " " + value);
  }
  return found;
}

}  // namespace moesim
