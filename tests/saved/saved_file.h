// SPDX-License-Identifier: Apache-2.0
// The lines of saved files, to break them on purpose.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "sim/base/gzip.h"

namespace moesim::test {

/// All lines of a file, that of the hash last.
inline std::vector<std::string> saved_lines(const std::string& path) {
  std::vector<std::string> lines(1);
  for (const char c : read_gzip(path)) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  lines.pop_back();
  return lines;
}

/// The content of a file of these lines, with their hash.
inline std::string hashed(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return gzipped(text + nlohmann::ordered_json{{"xxh3", hash_of(text)}}.dump() + "\n");
}

/// The same with a changed line, and its hash in the first line changed so that all hashes fit.
template <class Change>
std::string rewritten(std::vector<std::string> lines, std::size_t line, Change change) {
  const std::string old_hash = hash_of(lines[line]);
  auto json = nlohmann::ordered_json::parse(lines[line]);
  change(json);
  lines[line] = json.dump() + "\n";
  if (line > 0) lines[0].replace(lines[0].find(old_hash), old_hash.size(), hash_of(lines[line]));
  return hashed(lines);
}

}  // namespace moesim::test
