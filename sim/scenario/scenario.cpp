// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace moesim {
namespace {

const std::vector<std::string> set_prefixes = {"topology", "model", "gpu", "policy"};

/// A text, or a list of texts.
std::vector<std::string> names(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  if (!value) return {};
  if (!value->is_list()) return {value->string()};
  std::vector<std::string> result;
  for (const YamlValue& item : value->list()) result.push_back(item.string());
  if (result.empty()) value->error(fmt::format("'{}' is an empty list", key));
  return result;
}

std::vector<Fidelity> fidelities(const YamlMap& map) {
  const auto value = map.find("fidelity");
  if (!value) return {Fidelity::port};
  if (!value->is_list()) return {static_cast<Fidelity>(value->choice(fidelity_names))};
  std::vector<Fidelity> result;
  for (const YamlValue& item : value->list()) {
    result.push_back(static_cast<Fidelity>(item.choice(fidelity_names)));
  }
  return result;
}

bool parse_int(const std::string& text, int& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc() && end == text.data() + text.size() && out >= 0;
}

/// "all", "3" or "a:b" (b excluded).
StepRange step_range(const YamlMap& map) {
  StepRange range;
  const auto value = map.find("steps");
  const std::string text = value ? value->string() : "all";
  if (text == "all") return range;
  const auto colon = text.find(':');
  const bool one = colon == std::string::npos;
  const bool ok = parse_int(text.substr(0, colon), range.first) &&
                  (one || parse_int(text.substr(colon + 1), range.last));
  if (one) range.last = range.first + 1;
  if (!ok || range.last <= range.first) {
    value->error(fmt::format("'steps' cannot be '{}'", text),
                 "all, one step such as 3, or a range such as 0:10 (the last excluded)");
  }
  return range;
}

/// "all", "recorded", or a list of model layer numbers.
void read_layers(const YamlMap& map, Scenario& scenario) {
  const auto value = map.find("layers");
  if (!value) return;
  if (value->is_list()) {
    for (const YamlValue& item : value->list()) {
      scenario.layers.push_back(static_cast<int>(item.integer({0, 1 << 20})));
    }
    std::sort(scenario.layers.begin(), scenario.layers.end());
  } else {
    scenario.recorded_layers = value->choice({"all", "recorded"}) == 1;
  }
}

void read_set(const YamlMap& map, Scenario& scenario) {
  const auto value = map.find("set");
  if (!value) return;
  for (const YamlValue& item : value->list()) {
    const Override o = parse_override(item.string());
    const std::string prefix = o.path.substr(0, o.path.find('.'));
    const bool known =
        std::find(set_prefixes.begin(), set_prefixes.end(), prefix) != set_prefixes.end();
    if (!known || prefix == o.path) {
      item.error(fmt::format("'set' cannot change '{}'", o.path),
                 fmt::format("name the input first: topology.{0}, model.{0}, gpu.{0} or policy.{0}",
                             o.path));
    }
    scenario.set.push_back(o);
  }
}

}  // namespace

std::vector<Override> Scenario::overrides_of(const std::string& prefix) const {
  std::vector<Override> result;
  for (const Override& o : set) {
    if (o.path.starts_with(prefix + ".")) {
      result.push_back({o.path.substr(prefix.size() + 1), o.value, o.str()});
    }
  }
  return result;
}

Scenario read_scenario(const std::string& path, const std::vector<Override>& flags) {
  const auto doc = path.empty() ? YamlDocument::from_text("{}", "command line", flags)
                                : YamlDocument::from_file(path, flags);
  const YamlMap map = doc->root().map();
  Scenario s;
  s.topologies = names(map, "topology");
  s.model = map.string("model");
  s.trace = map.string("trace");
  s.policies = names(map, "policy");
  s.fidelities = fidelities(map);
  if (const auto ep = map.find("ep")) s.ep = static_cast<int>(ep->integer({1, 1 << 20}));
  if (const auto tokens = map.find("tokens_per_rank")) {
    s.tokens_per_rank = tokens->integer({1, 1 << 30});
  }
  s.repeat = static_cast<int>(map.integer("repeat", {1, 1 << 20}, 1));
  s.steps = step_range(map);
  read_layers(map, s);
  s.backward = map.choice("pass", {"forward", "forward+backward"}, 1) == 1;
  read_set(map, s);
  doc->finish();
  return s;
}

}  // namespace moesim
