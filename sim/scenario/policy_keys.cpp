// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/iteration_reader.h"
#include "sim/scenario/step_reader.h"

namespace moesim {
namespace {

std::vector<std::string> keys_of_policies() {
  std::vector<std::string> keys = {"ep", "gradient_bytes", "optimizer_bytes"};
  for (const std::string& key : iteration_keys) {
    if (key != "routing") keys.push_back(key);
  }
  return keys;
}

/// Every plain value below `value`, so that a policy's mapping is laid over that of the scenario.
void add_leaves(const YamlValue& value, const std::string& path, const std::string& policy,
                std::vector<Override>& changes) {
  if (value.is_map()) {
    const YamlMap map = value.map();
    for (const std::string& key : map.keys()) {
      add_leaves(*map.find(key), path + "." + key, policy, changes);
    }
    return;
  }
  const std::string text = value.is_scalar() ? value.string() : value.json();
  changes.push_back({fmt::format("scenario:{}.{}", policy, path), text,
                     fmt::format("policy {}: {}={}", policy, path, text)});
}

}  // namespace

bool may_be_own(const std::string& path) {
  const auto keys = keys_of_policies();
  return std::ranges::find(keys, path.substr(0, path.find('.'))) != keys.end();
}

std::vector<YamlValue> policy_names(const YamlMap& scenario) {
  std::vector<YamlValue> names;
  const auto value = scenario.get("policy");
  if (!value) return names;
  for (const YamlValue& item : one_or_more(*value)) {
    if (!item.is_map()) {
      names.push_back(item);
      continue;
    }
    const YamlMap map = item.map();
    for (const std::string& key : keys_of_policies()) map.find(key);  // read by own_keys_in
    if (const auto name = map.get("name")) names.push_back(*name);
  }
  return names;
}

std::vector<Override> own_keys_in(const std::string& text, const std::string& path) {
  std::vector<Override> changes;
  if (text.find("name") == std::string::npos) return changes;
  const auto doc = YamlDocument::from_text(text, path.empty() ? "command line" : path);
  const YamlValue root = doc->root();
  const auto value = root.is_map() ? root.map().find("policy") : std::nullopt;
  if (!value) return changes;
  for (const YamlValue& item : value->is_list() ? value->list() : std::vector{*value}) {
    if (!item.is_map()) continue;
    const YamlMap map = item.map();
    const auto name = map.find("name");
    if (!name || !name->is_scalar()) continue;
    const std::string policy = as_named_in(path, "models/system", name->string());
    for (const std::string& key : map.keys()) {
      if (may_be_own(key)) add_leaves(*map.find(key), key, policy, changes);
    }
  }
  // The rest of the file is read by others, who report what they do not know.
  if (!doc->diagnostics().empty()) throw Error(doc->diagnostics());
  return changes;
}

std::vector<Override> own_keys_of(const std::vector<Override>& changes, const std::string& policy,
                                  bool iteration) {
  std::vector<Override> keys;
  for (Override& change : changes_of(changes, "scenario", policy)) {
    if (!may_be_own(change.path)) {
      const std::string key = change.path.substr(0, change.path.find('.'));
      throw error_in(change.str(), fmt::format("a policy cannot have its own '{}'", key),
                     did_you_mean(key, keys_of_policies()));
    }
    // `ep` and `parallel.ep` are one key of an iteration; a flag may have said the first for all.
    if (iteration && change.path == "parallel.ep") change.path = "ep";
    keys.push_back(std::move(change));
  }
  return keys;
}

}  // namespace moesim
