// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/yaml_tree.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/yaml.h"

namespace moesim {
namespace {

/// A document of a stream.
struct YamlPart {
  int before = 0;  // lines of the file
  std::string text;
};

bool is_marker(const std::string& line) {
  return line.starts_with("---") && line.find_first_not_of(" \t\r", 3) == std::string::npos;
}

bool says_something(const YamlPart& part) {
  std::istringstream lines(part.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos && line[first] != '#') return true;
  }
  return false;
}

/// Documents end at markers, and objects of JSON where the next one begins.
std::vector<YamlPart> documents_in(const std::string& text) {
  std::vector<YamlPart> parts(1);
  std::istringstream lines(text);
  int number = 0;
  bool closed = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const bool marker = is_marker(line);
    if (marker || (closed && line.starts_with('{')))
      parts.push_back({marker ? number : number - 1, ""});
    if (!marker) parts.back().text += line + '\n';
    closed = line.starts_with('}') || (line.starts_with('{') && line.back() == '}');
  }
  std::erase_if(parts, [](const YamlPart& part) { return !says_something(part); });
  return parts;
}

YamlTree parsed(const std::string& text, const std::string& name) {
  return YamlTree::parse(YamlDocument::from_text(text, name)->root().json());
}

YamlTree parsed(const YamlPart& part, const std::string& name) {
  try {
    return parsed(part.text, name);
  } catch (const Error& e) {
    std::vector<Diagnostic> diagnostics = e.diagnostics();
    for (Diagnostic& d : diagnostics) d.line += part.before;
    throw Error(std::move(diagnostics));
  }
}

/// A list of nodes if all documents are nodes or such lists; else null.
YamlTree list_of(const std::vector<YamlPart>& parts, const std::string& name) {
  YamlTree items = YamlTree::array();
  for (const YamlPart& part : parts) {
    const YamlTree root = parsed(part, name);
    const YamlTree& more = at_key(root, "items");
    if (more.is_array()) {
      items.insert(items.end(), more.begin(), more.end());
    } else if (text_at(root, "kind") == "Node") {
      items.push_back(root);
    } else {
      return {};
    }
  }
  return {{"kind", "List"}, {"items", items}};
}

}  // namespace

YamlTree yaml_tree(const std::string& text, const std::string& name) {
  if (const auto parts = documents_in(text); parts.size() > 1) {
    if (YamlTree list = list_of(parts, name); !list.is_null()) return list;
  }
  return parsed(text, name);
}

const YamlTree& at_key(const YamlTree& tree, const char* key) {
  static const YamlTree none;
  if (!tree.is_object()) return none;
  const auto found = tree.find(key);
  return found == tree.end() ? none : *found;
}

std::string text_at(const YamlTree& tree, const char* key) {
  const YamlTree& value = at_key(tree, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

}  // namespace moesim
