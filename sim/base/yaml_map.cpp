// SPDX-License-Identifier: Apache-2.0
// Mappings: which keys were asked for, and the report of keys that nobody knows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

/// Keys that would read as another path, or as that of the map itself, are quoted.
std::string join_path(const std::string& path, const std::string& key) {
  const bool plain = !key.empty() && !key.starts_with('\'') && key.find('.') == std::string::npos;
  const std::string name = plain ? key : fmt::format("'{}'", key);
  return path.empty() ? name : path + "." + name;
}

std::string name_of(const std::string& path) {
  return path.empty() ? "the file" : fmt::format("'{}'", path);
}

/// Nobody reads more suggestions, and each takes a comparison with every name that is known.
constexpr std::size_t most_suggestions = 100;

bool by_place(const Diagnostic& a, const Diagnostic& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

}  // namespace

YamlMap YamlValue::map() const {
  auto& keys = doc_->state_->maps[path_];
  if (!keys) {
    keys = std::make_shared<YamlKeys>();
    if (!is_map()) {
      error(fmt::format("{} must be a mapping, not {}", name_of(path_), found_in(*node_)),
            "write key: value pairs");
    } else {
      keys->node.reset(*node_);
      std::set<std::string> seen;
      for (const auto& item : *node_) {
        const std::string key = item.first.IsScalar() ? item.first.Scalar() : "?";
        if (!seen.insert(key).second) {
          doc_->state_->add(Severity::error, item.first, join_path(path_, key),
                            fmt::format("key '{}' is there twice", key), "");
        }
      }
    }
  }
  return YamlMap(*this, keys);
}

YamlMap YamlValue::map_or_empty() const {
  return is_map() ? map() : YamlMap(*this, std::make_shared<YamlKeys>());
}

YamlMap::YamlMap(YamlValue value, std::shared_ptr<YamlKeys> keys)
    : value_(std::move(value)), keys_(std::move(keys)) {}

std::optional<YamlValue> YamlMap::find(const std::string& key) const {
  keys_->requested.insert(key);
  if (!keys_->node.IsMap()) return std::nullopt;
  const YAML::Node& map = keys_->node;  // const: a look-up must not add the key
  const YAML::Node found = map[key];
  if (!found.IsDefined()) return std::nullopt;
  if (found.IsNull()) value_.doc_->state_->remember_key(map, key, join_path(value_.path_, key));
  return YamlValue(*value_.doc_, found, join_path(value_.path_, key));
}

std::optional<YamlValue> YamlMap::get(const std::string& key) const {
  auto found = find(key);
  if (!found) value_.doc_->state_->failed.insert(join_path(value_.path_, key));
  if (!found && keys_->node.IsMap()) keys_->missing.push_back(key);
  return found;
}

bool YamlMap::good(const std::vector<std::string>& keys) const {
  const auto& failed = value_.doc_->state_->failed;
  return std::none_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const std::string path = join_path(value_.path_, key);
    const auto inside = failed.lower_bound(path + ".");
    return failed.count(path) > 0 || (inside != failed.end() && inside->starts_with(path + "."));
  });
}

std::vector<std::string> YamlMap::keys() const {
  std::vector<std::string> names;
  if (!keys_->node.IsMap()) return names;
  for (const auto& item : keys_->node) {
    if (item.first.IsScalar()) names.push_back(item.first.Scalar());
  }
  return names;
}

std::string YamlMap::string(const std::string& key) const {
  const auto v = get(key);
  return v ? v->string() : "";
}
std::string YamlMap::string(const std::string& key, const std::string& absent) const {
  const auto v = find(key);
  return v ? v->string() : absent;
}
std::int64_t YamlMap::integer(const std::string& key, Range range) const {
  const auto v = get(key);
  return v ? v->integer(range) : static_cast<std::int64_t>(std::clamp(1.0, range.min, range.max));
}
std::int64_t YamlMap::integer(const std::string& key, Range range, std::int64_t absent) const {
  const auto v = find(key);
  return v ? v->integer(range) : absent;
}
double YamlMap::number(const std::string& key, Range range) const {
  const auto v = get(key);
  return v ? v->number(range) : std::clamp(1.0, range.min, range.max);
}
double YamlMap::number(const std::string& key, Range range, double absent) const {
  const auto v = find(key);
  return v ? v->number(range) : absent;
}
bool YamlMap::boolean(const std::string& key, bool absent) const {
  const auto v = find(key);
  return v ? v->boolean() : absent;
}
Seconds YamlMap::seconds(const std::string& key) const {
  const auto v = get(key);
  return v ? v->seconds() : Seconds(0);
}
Seconds YamlMap::seconds(const std::string& key, Seconds absent) const {
  const auto v = find(key);
  return v ? v->seconds() : absent;
}
Bytes YamlMap::bytes(const std::string& key) const {
  const auto v = get(key);
  return v ? v->bytes() : Bytes(0);
}
BytesPerSecond YamlMap::bandwidth(const std::string& key) const {
  const auto v = get(key);
  return v ? v->bandwidth() : BytesPerSecond(1);
}
BytesPerSecond YamlMap::bandwidth(const std::string& key, BytesPerSecond absent) const {
  const auto v = find(key);
  return v ? v->bandwidth() : absent;
}
FlopsPerSecond YamlMap::compute_rate(const std::string& key) const {
  const auto v = get(key);
  return v ? v->compute_rate() : FlopsPerSecond(1);
}
int YamlMap::choice(const std::string& key, const std::vector<std::string>& names) const {
  const auto v = get(key);
  if (!v) {
    keys_->hints[key] = fmt::format("{}: one of {}", key, fmt::join(names, ", "));
    return 0;
  }
  const auto& mistakes = value_.doc_->state_->diagnostics;
  const std::size_t before = mistakes.size();
  const int chosen = v->choice(names);
  if (key == "kind" && mistakes.size() > before) keys_->undecided = true;
  return chosen;
}
int YamlMap::choice(const std::string& key, const std::vector<std::string>& names,
                    int absent) const {
  return find(key) ? choice(key, names) : absent;
}

void YamlDocument::State::remember_key(const YAML::Node& map, const std::string& key,
                                       const std::string& path) {
  for (const auto& item : map) {
    if (item.first.IsScalar() && item.first.Scalar() == key) {
      empty_values[path] = std::make_shared<YAML::Node>(item.first);
    }
  }
}

void YamlDocument::State::report_keys(const std::string& path, YamlKeys& keys) {
  if (!keys.node.IsMap() || keys.undecided) return;
  const std::vector<std::string> known(keys.requested.begin(), keys.requested.end());
  const std::string inside = path.empty() ? "" : fmt::format(" in '{}'", path);
  auto& missing = keys.missing;
  const auto named = [](const auto& item) {
    return item.first.IsScalar() ? item.first.Scalar() : "?";
  };
  // Which keys there are follows from the kind: if that is misspelt, the others are not mistakes.
  const auto misspelt = [&](const auto& item) {
    const std::string key = named(item);
    return keys.requested.count(key) == 0 && nearest(key, known) == "kind";
  };
  const bool unkind = keys.requested.count("kind") > 0 && !std::as_const(keys.node)["kind"] &&
                      std::any_of(keys.node.begin(), keys.node.end(), misspelt);
  for (const auto& item : keys.node) {
    const std::string key = named(item);
    if (keys.requested.count(key) > 0 || (unkind && !misspelt(item))) continue;
    const bool suggest = diagnostics.size() < most_suggestions;
    if (override_at(join_path(path, key), item.first.Mark().is_null())) ++unknown_by_change;
    add(Severity::error, item.first, join_path(path, key),
        fmt::format("unknown key '{}'{}", key, inside), suggest ? did_you_mean(key, known) : "");
    if (suggest) std::erase(missing, nearest(key, known));  // one mistake, one message
  }
  for (const std::string& key : missing) {
    add(Severity::error, keys.node, path, fmt::format("{} lacks the key '{}'", name_of(path), key),
        keys.hints[key]);
  }
}

void YamlDocument::finish() {
  for (const auto& [path, keys] : state_->maps) state_->report_keys(path, *keys);
  state_->maps.clear();
  auto& all = state_->diagnostics;
  std::stable_sort(all.begin(), all.end(), by_place);
  std::vector<Diagnostic> errors;  // warnings may come from a value that replaces a wrong one
  std::copy_if(all.begin(), all.end(), std::back_inserter(errors),
               [](const Diagnostic& d) { return d.severity == Severity::error; });
  if (errors.empty()) return;
  if (errors.size() == state_->unknown_by_change) throw NoSuchKey(errors);
  throw Error(errors);
}

const std::vector<std::string>& YamlDocument::noted_files() const { return state_->noted_files; }

std::vector<Diagnostic> YamlDocument::warnings() const {
  std::vector<Diagnostic> result;
  for (const auto& d : state_->diagnostics) {
    if (d.severity == Severity::warning) result.push_back(d);
  }
  return result;
}

}  // namespace moesim
