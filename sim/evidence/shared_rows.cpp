// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/shared_rows.h"

#include <algorithm>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

constexpr const char* kind_of_shared = "papers/shared";

/// Whether it is a key of rows that is no key of scenarios.
bool add_own_key(const std::string& key, const YamlValue& value, RowKeys& keys) {
  if (key == "policy") {
    keys.policy = value.string();
  } else if (key == "gpus") {
    keys.gpus = static_cast<int>(value.integer({1, 1 << 20}));
  } else if (key == "turns_of_stage") {
    keys.stage = static_cast<int>(value.integer({0, 1 << 20}));
  } else if (key == "fitted") {
    keys.fitted = value.string();
  } else if (key == "recorded") {
    keys.recorded = value.string();
  } else if (key == "scores") {
    keys.all_scores = value.choice({"causal", "all"}) == 1;
  } else if (key == "whole") {
    keys.whole = value.boolean();
  } else {
    return false;
  }
  return true;
}

/// Calls `visit(name, map)` for every entry of an optional mapping of mappings.
template <class Visit>
void each_entry(const YamlMap& root, const std::string& key, const Visit& visit) {
  const auto value = root.find(key);
  if (!value) return;
  const YamlMap map = value->map();
  for (const std::string& name : map.keys()) {
    if (const auto entry = map.find(name)) visit(name, entry->map());
  }
}

void add_flags(const YamlMap& map, const std::vector<std::string>& others, PaperFlags& flags) {
  for (const std::string& key : map.keys()) {
    if (std::ranges::find(others, key) != others.end()) continue;
    if (const auto value = map.find(key)) flags.merge(key, *value);
  }
}

RowMachine read_machine(const std::string& name, const YamlMap& map) {
  RowMachine machine{name,
                     static_cast<int>(map.integer("gpus_per_node", {1, 1 << 20})),
                     map.string("adapters", ""),
                     {}};
  if (const auto changes = map.find("left_out")) {
    for (const YamlValue& change : changes->list()) machine.left_out.push_back(change.string());
  }
  add_flags(map, {"gpus_per_node", "adapters", "left_out"}, machine.flags);
  return machine;
}

RowPolicy read_policy(const std::string& name, const YamlMap& map) {
  RowPolicy policy{name, map.string("policy"), {}};
  if (const auto rates = map.find("between_nodes")) {
    const YamlMap by_adapters = rates->map();
    for (const std::string& adapters : by_adapters.keys()) {
      by_adapters.bandwidth(adapters);
      policy.between_nodes.emplace_back(adapters, by_adapters.string(adapters));
    }
  }
  if (const auto changes = map.find("merged")) {
    for (const YamlValue& change : changes->list()) policy.merged.push_back(change.string());
  }
  add_flags(map, {"policy", "between_nodes", "merged"}, policy.flags);
  return policy;
}

void add_entries(const YamlMap& root, SharedRows& rows) {
  each_entry(root, "machines", [&](const std::string& name, const YamlMap& map) {
    rows.machines.push_back(read_machine(name, map));
  });
  each_entry(root, "policies", [&](const std::string& name, const YamlMap& map) {
    rows.policies.push_back(read_policy(name, map));
  });
}

}  // namespace

void add_row_keys(const YamlMap& map, const std::vector<std::string>& others, RowKeys& keys) {
  for (const std::string& key : map.keys()) {
    if (std::ranges::find(others, key) != others.end()) continue;
    const auto value = map.find(key);
    if (value && !add_own_key(key, *value, keys)) keys.flags.merge(key, *value);
  }
}

const RowPolicy* SharedRows::policy(const std::string& name) const {
  const auto found = std::ranges::find(policies, name, &RowPolicy::name);  // the table's first
  return found == policies.end() ? nullptr : &*found;
}

SharedRows read_shared_rows(const YamlMap& table, const std::string& path) {
  SharedRows rows;
  add_entries(table, rows);
  const std::string name = table.string("shared", "");
  if (name.empty()) return rows;
  const auto document = YamlDocument::from_file(data_file(kind_of_shared, name, path));
  {
    const YamlMap root = document->root().map();
    if (const auto common = root.find("common")) add_row_keys(common->map(), {}, rows.common);
    add_entries(root, rows);
  }
  document->finish();
  return rows;
}

}  // namespace moesim
