// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/read_number.h"
#include "sim/base/yaml_load.h"
#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

/// Makes a mapping of a plain value for a change below it, if the change allows that: a default
/// keeps the value as {kind: value}, which is the same; a change by a mapping drops it.
bool make_mapping(YAML::Node& node, const Override& change) {
  if (!change.unless_stated && !change.of_mapping) return false;
  YAML::Node map(YAML::NodeType::Map);
  if (change.unless_stated) map["kind"] = YAML::Clone(node);
  node = map;
  return true;
}

/// The child that one part of a dotted path names. A map gets one if it is missing. Throws Error
/// for an item that a list lacks, NoSuchKey below a plain value.
YAML::Node child(YAML::Node& node, const std::string& part, const std::string& where,
                 const Override& change) {
  if (node.IsSequence()) {
    const auto index = parse_integer<std::size_t>(part);
    if (!index || *index >= node.size()) {
      throw error_in(where,
                     fmt::format("no item '{}' in a list of {}", part,
                                 counted(static_cast<std::int64_t>(node.size()), "item")),
                     "list items count from 0");
    }
    return node[*index];
  }
  if (node.IsScalar() && !make_mapping(node, change)) {
    throw NoSuchKey(error_in(where, fmt::format("there is no '{}' below the plain value '{}'", part,
                                                node.Scalar()))
                        .diagnostics());
  }
  return node[part];
}

/// Takes out the key at the end of a dotted path.
void remove_key(const YAML::Node& root, const std::string& path, const std::string& where) {
  YAML::Node node = root;
  std::istringstream parts(path);
  std::string part, before;
  while (std::getline(parts, part, '.')) {
    const YAML::Node& here = node;  // const: a look-up must not add the key
    const bool listed = here.IsMap() && here[part].IsDefined();
    if (!listed && here.IsMap()) {
      std::vector<std::string> keys;
      for (const auto& item : here) {
        if (item.first.IsScalar()) keys.push_back(item.first.Scalar());
      }
      throw error_in(where, fmt::format("there is no '{}' to remove", before + part),
                     keys.empty() ? "there are no keys at all" : did_you_mean(part, keys));
    }
    if (parts.eof()) break;
    if (here.IsMap()) {
      node.reset(here[part]);
    } else {
      node.reset(child(node, part, where, {}));
    }
    before += part + ".";
  }
  if (!node.IsMap()) {
    throw error_in(where, fmt::format("'{}' is not a key: null removes keys of mappings", path));
  }
  node.remove(part);
}

/// Where a second change begins: ",path.of.it=" behind a value that is no list, map or quotation.
std::size_t second_change(const std::string& text, std::size_t value) {
  if (text.find_first_of("[{'\"", value) != std::string::npos) return std::string::npos;
  const std::size_t comma = text.find(',', value), equals = text.find('=', comma);
  if (comma == std::string::npos || equals == std::string::npos) return std::string::npos;
  const std::string_view path = std::string_view(text).substr(comma + 1, equals - comma - 1);
  const bool dotted = path.find('.') != std::string_view::npos && is_path(path);
  return dotted && path.find_first_of(", ") == std::string_view::npos ? comma : std::string::npos;
}

}  // namespace

Override parse_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || !is_path(text.substr(0, equals))) {
    throw Error(fmt::format("--set {}: expected path=value", text),
                "for example --set topology.nodes=8");
  }
  if (const auto comma = second_change(text, equals + 1); comma != std::string::npos) {
    throw Error(fmt::format("--set {}: takes one change", text),
                fmt::format("--set {} --set {}", text.substr(0, comma), text.substr(comma + 1)));
  }
  return {text.substr(0, equals), text.substr(equals + 1), ""};
}

bool is_path(std::string_view text) {
  return !text.empty() && !text.starts_with('.') && !text.ends_with('.') &&
         text.find("..") == std::string_view::npos;
}

const Override* YamlDocument::State::override_at(const std::string& path, bool created) const {
  for (auto o = overrides.rbegin(); o != overrides.rend(); ++o) {
    const bool inside = path == o->path || path.starts_with(o->path + ".");
    if (inside || (created && o->path.starts_with(path + "."))) return &*o;
  }
  return nullptr;
}

void YamlDocument::State::add(Severity severity, const YAML::Node& node, const std::string& path,
                              const std::string& message, const std::string& hint) {
  Diagnostic d{severity, file, 0, 0, message, "", hint};
  if (severity == Severity::error) failed.insert(path);
  const bool whole_file = path.empty() && node.IsMap();  // its first line would only mislead
  const auto key = empty_values.find(path);
  if (const Override* o = override_at(path, node.Mark().is_null())) {
    d.file = fmt::format("{}: {}", file, o->str());
  } else if (!whole_file && !node.Mark().is_null()) {
    const YAML::Mark mark = mark_of(key == empty_values.end() ? node : *key->second);
    d.line = mark.line + 1;
    d.column = mark.column + 1;
    const auto line = static_cast<std::size_t>(mark.line);
    if (line < lines.size() && lines[line].size() <= source_bytes_left) {
      d.source_line = lines[line];
      source_bytes_left -= lines[line].size();
    }
  }
  diagnostics.push_back(std::move(d));
}

void YamlDocument::State::apply_overrides() {
  // Defaults come last, so that they see what the others state.
  std::stable_partition(overrides.begin(), overrides.end(),
                        [](const Override& o) { return !o.unless_stated; });
  for (const auto& o : overrides) {
    const std::string where = fmt::format("{}: {}", file, o.str());
    if (o.value == "null") {
      remove_key(root, o.path, where);
      continue;
    }
    YAML::Node node = root;
    std::istringstream parts(o.path);
    for (std::string part; std::getline(parts, part, '.');) {
      node.reset(child(node, part, where, o));
    }
    if (o.unless_stated && node.IsDefined()) continue;
    try {
      node = load_yaml(o.value, "");
    } catch (const Error& e) {
      throw error_in(where, e.diagnostics().front().message, e.diagnostics().front().hint);
    }
  }
}

YamlDocument::YamlDocument(std::unique_ptr<State> state) : state_(std::move(state)) {}
YamlDocument::~YamlDocument() = default;

std::unique_ptr<YamlDocument> YamlDocument::from_text(const std::string& text,
                                                      const std::string& name,
                                                      const std::vector<Override>& overrides) {
  auto state = std::make_unique<State>();
  state->file = name;
  state->lines = split_lines(text);
  state->overrides = overrides;
  state->parsed = load_shared_yaml(text, name);
  if (!state->parsed.IsDefined() || state->parsed.IsNull()) {
    throw error_in(name, "the file is empty");
  }
  state->root = overrides.empty() ? state->parsed : YAML::Clone(state->parsed);
  state->apply_overrides();
  return std::unique_ptr<YamlDocument>(new YamlDocument(std::move(state)));
}

std::unique_ptr<YamlDocument> YamlDocument::from_file(const std::string& path,
                                                      const std::vector<Override>& overrides) {
  return from_text(read_file(path), path, overrides);
}

const std::string& YamlDocument::file() const { return state_->file; }
const std::vector<Diagnostic>& YamlDocument::diagnostics() const { return state_->diagnostics; }
YamlValue YamlDocument::root() { return YamlValue(*this, state_->root, ""); }

}  // namespace moesim
