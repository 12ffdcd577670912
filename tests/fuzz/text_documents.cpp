// SPDX-License-Identifier: Apache-2.0
// YAML and JSON themselves, below all readers.
#include <nlohmann/json.hpp>

#include "sim/base/json_events.h"
#include "sim/base/yaml.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

/// Every value as text, and, `as_all`, as every kind of value: mistakes are collected.
void visit(const YamlValue& value, bool as_all) {
  if (value.is_map()) {
    const YamlMap map = value.map();
    for (const std::string& key : map.keys()) visit(*map.find(key), as_all);
  } else if (value.is_list()) {
    for (const YamlValue& item : value.list()) visit(item, as_all);
  } else if (value.is_scalar()) {
    value.string();
    if (!as_all) return;
    value.number();
    value.integer();
    value.boolean();
    value.bytes();
    value.bandwidth();
  }
}

/// A text that begins with an "a" has overrides, one with a "b" is read as every kind of value.
void read_yaml(std::string_view bytes) {
  std::vector<Override> overrides;
  if (bytes.starts_with('a')) overrides.push_back({"a.b", "1", ""});
  const auto document = YamlDocument::from_text(std::string(bytes), "a.yaml", overrides);
  visit(document->root(), bytes.starts_with('b'));
  document->root().json();
  document->finish();
}

void read_json(std::string_view bytes) {
  JsonEvents ignored;
  parse_json(bytes, {"a.json"}, ignored);
  parse_json(bytes, {"a.json"}).dump();
}

}  // namespace

const Target yaml_target{"yaml", read_yaml};
const Target json_target{"json", read_json};

}  // namespace moesim::fuzz
