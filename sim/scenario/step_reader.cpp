// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/step_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/read_number.h"

namespace moesim {
namespace {

/// -1 for what is no number of a step.
int step_in(const std::string& text) {
  const int step = parse_integer<int>(text).value_or(-1);
  return step < 1 << 30 ? step : -1;
}

}  // namespace

std::vector<YamlValue> one_or_more(const YamlValue& value) {
  if (!value.is_list()) return {value};
  std::vector<YamlValue> items = value.list();
  if (items.empty()) value.error(fmt::format("'{}' is an empty list", value.path()));
  return items;
}

std::string recorded_trace(const YamlMap& map) {
  const bool only_trace = !map.find("trace") && map.find("topology") && map.find("model");
  if (only_trace) {
    map.value().error("the file lacks the key 'trace'",
                      "--trace NAME (moesim list traces), or --synth, which draws one");
    return "";
  }
  const auto value = map.get("trace");
  std::string text = value ? value->string() : "";
  if (value && value->is_scalar() && text.empty()) value->error("'trace' is empty");
  return text;
}

int read_accumulate(const YamlMap& map) {
  const auto value = map.find("accumulate");
  if (value && value->is_scalar()) {
    const std::string text = value->string();
    if (text == "never") return 0;
    if (!text.empty() && text.find_first_not_of("0123456789") != std::string::npos) {
      value->error(fmt::format("'accumulate' cannot be '{}'", text), "a number of steps, or never");
      return 1;
    }
  }
  return static_cast<int>(map.integer("accumulate", {1, 1 << 20}, 1));
}

StepRange read_step_range(const YamlMap& map) {
  StepRange range;
  const auto value = map.find("steps");
  const std::string text = value ? value->string() : "all";
  if (text == "all" || !value->is_scalar()) return range;
  const auto colon = text.find(':');
  const bool one = colon == std::string::npos;
  range.first = step_in(text.substr(0, colon));
  range.last = one ? range.first + 1 : step_in(text.substr(colon + 1));
  if (range.first < 0 || range.last <= range.first) {
    value->error(fmt::format("'steps' cannot be '{}'", text),
                 "all, one step such as 3, or a range such as 0:10 (the last excluded)");
  }
  return range;
}

int read_warmup(const YamlMap& map, const StepRange& steps) {
  const auto value = map.find("warmup");
  if (!value) return 0;
  const auto count = static_cast<int>(value->integer({0, 1 << 20}));
  if (count > 0 && steps.first == 0 && steps.last >= 0 && map.good({"warmup", "steps"})) {
    value->error("'warmup' has no effect: 'steps' begins at step 0",
                 "let it begin later, or leave 'steps' out");
  }
  return count;
}

void read_layers(const YamlMap& map, Scenario& scenario) {
  const auto value = map.find("layers");
  if (!value) return;
  if (!value->is_list()) {
    scenario.recorded_layers = value->choice({"all", "recorded"}) == 1;
    return;
  }
  auto& layers = scenario.layers;
  for (const YamlValue& item : one_or_more(*value)) {
    layers.push_back(static_cast<int>(item.integer({0, 1 << 20})));
  }
  std::sort(layers.begin(), layers.end());
  const auto twice = std::adjacent_find(layers.begin(), layers.end());
  if (map.good({"layers"}) && twice != layers.end()) {
    value->error(fmt::format("'layers' has layer {} twice", *twice));
  }
}

}  // namespace moesim
