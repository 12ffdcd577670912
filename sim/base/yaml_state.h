// SPDX-License-Identifier: Apache-2.0
// Inside of a YamlDocument; only yaml*.cpp include it (and with it yaml-cpp).
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// The keys of one mapping that were asked for, to tell the unknown ones at the end.
struct YamlKeys {
  YAML::Node node;
  std::set<std::string> requested;
  std::vector<std::string> missing;               // required but not there
  std::map<std::string, std::string> hints = {};  // what missing ones may be
  bool undecided = false;  // its 'kind' is wrong, and with it which keys belong there
};

/// What is found where something else is due: "a list", "empty", "'x'"...
std::string found_in(const YAML::Node& node);

struct YamlDocument::State {
  std::string file;
  std::vector<std::string> lines;
  YAML::Node parsed;  // of the text, shared with other documents: never changed
  YAML::Node root;    // the same, or a copy with the overrides
  std::vector<Override> overrides;
  std::vector<Diagnostic> diagnostics;
  std::map<std::string, std::shared_ptr<YamlKeys>> maps;  // by path
  std::set<std::string> failed;                           // paths with errors
  std::vector<std::string> noted_files;
  /// The keys of values that are empty, by path: yaml-cpp places such a value in the next line.
  std::map<std::string, std::shared_ptr<YAML::Node>> empty_values;
  /// Bytes that diagnostics may still repeat: a file may be one line of a million mistakes.
  std::size_t source_bytes_left = 16 << 20;
  std::size_t unknown_by_change = 0;  // errors that are keys of overrides which nobody knows

  void add(Severity severity, const YAML::Node& node, const std::string& path,
           const std::string& message, const std::string& hint);
  void apply_overrides();
  /// Whether an override made the value at `path`.
  bool is_nowhere(const YAML::Node& node, const std::string& path) const {
    return node.Mark().is_null() || override_at(path, false) != nullptr;
  }
  /// Where the text has a node of the document that the text made.
  YAML::Mark mark_of(const YAML::Node& node);
  void remember_key(const YAML::Node& map, const std::string& key, const std::string& path);
  /// Reports the unknown and the missing keys of one mapping.
  void report_keys(const std::string& path, YamlKeys& keys);

 private:
  /// Of the nodes of a copy, which has none of its own, by the addresses of their tags: no two
  /// nodes share one. Nothing before the first is asked for.
  std::optional<std::unordered_map<const std::string*, YAML::Mark>> marks_of_copy_;

  /// The last override that set the value at `path`, or created a mapping there.
  const Override* override_at(const std::string& path, bool created) const;
};

}  // namespace moesim
