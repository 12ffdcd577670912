// SPDX-License-Identifier: Apache-2.0
#include "sim/report/hardware_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/files.h"

namespace moesim {
namespace {

constexpr int version = 2;

template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(name_of(static_cast<Enum>(i)));
  return names;
}

std::vector<YamlValue> list(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? value->list() : std::vector<YamlValue>{};
}

/// What only people and other programs read.
void skip_others(const YamlMap& map) {
  for (const std::string& key : map.keys()) map.find(key);
}

Seconds seconds(const YamlMap& map, const std::string& key) {
  return Seconds(map.number(key, non_negative));
}

HardwareStep read_step(const YamlMap& map) {
  HardwareStep step;
  step.plan = map.string("plan_xxh3");
  for (const YamlValue& repeat : list(map, "repeats_s")) {
    step.repeats.emplace_back(repeat.number(positive));
  }
  if (map.good({"repeats_s"}) && step.repeats.empty()) {
    map.value().error(fmt::format("'{}.repeats_s' is empty", map.value().path()));
  }
  for (const YamlValue& item : list(map, "ops")) {
    const YamlMap op = item.map();
    const OpGroup kind{op.string("name"),
                       static_cast<Stage>(op.choice("stage", names_of<Stage>(stage_count))),
                       static_cast<Stream>(op.choice("stream", names_of<Stream>(stream_count)))};
    step.ops.kinds[kind] = seconds(op, "time_s");
  }
  step.ops.waiting = seconds(map, "waiting_s");
  return step;
}

HardwareCase read_case(const YamlMap& map) {
  HardwareCase result;
  result.policy = map.string("policy");
  if (map.find("unsuitable")) {
    result.unsuitable = map.string("unsuitable");
    return result;
  }
  result.wrong = map.integer("wrong", non_negative);
  for (const YamlValue& step : list(map, "measured_steps")) {
    result.steps.push_back(read_step(step.map()));
  }
  if (map.good({"measured_steps"}) && result.steps.empty()) {
    map.value().error(fmt::format("'{}.measured_steps' is empty", map.value().path()));
  }
  skip_others(map);
  return result;
}

std::vector<Override> read_scenario_flags(const YamlMap& map) {
  std::vector<Override> flags;
  const std::string& path = map.value().path();
  for (const std::string& key : map.keys()) {
    const YamlValue value = *map.find(key);
    if (key != "set") {
      flags.push_back({key, value.json(), fmt::format("{}.{}", path, key)});
      continue;
    }
    for (const YamlValue& change : value.list()) {
      flags.push_back({key, change.string(), change.path()});
    }
  }
  // Written before scenarios stated it, when all were ideal.
  if (!map.find("transport")) flags.push_back({"transport", "ideal", path});
  return flags;
}

int count(const YamlMap& map, const std::string& key, double least) {
  return static_cast<int>(map.integer(key, {least, 1 << 30}));
}

/// For another document only this is reported: that it lacks everything else is not news.
void check_format(const YamlDocument& doc, const YamlMap& map) {
  const char* needed = "a result of moesim-hw run --json is needed";
  const auto format = map.find("format");
  if (!format || !format->is_scalar()) {
    map.value().error("is not a result of moesim-hw: it does not tell its 'format'", needed);
  } else if (format->string() != "moesim-hw-result") {
    format->error(fmt::format("'format' is '{}'", format->string()), needed);
  } else if (const std::int64_t written = map.integer("format_version", {1, 1 << 20});
             map.good({"format_version"}) && written != version) {
    map.find("format_version")
        ->error(fmt::format("'format_version' is {}, not {}", written, version),
                "measure again with this version of moesim-hw");
  }
  if (!doc.diagnostics().empty()) throw Error({doc.diagnostics().front()});
}

}  // namespace

HardwareResult parse_hardware_result(const std::string& text, const std::string& name) {
  const auto doc = YamlDocument::from_text(text, name);
  const YamlMap map = doc->root().map();
  HardwareResult result;
  result.file = name;
  result.bytes = std::ssize(text);
  check_format(*doc, map);
  result.moesim = map.string("moesim");
  result.date = map.string("date");
  result.description = map.string("description");
  result.ranks = count(map, "ranks", 1);
  result.hosts = count(map, "hosts", 1);
  result.warmup = count(map, "warmup", 0);
  result.repeats = count(map, "repeats", 1);
  if (const auto scenario = map.get("scenario")) {
    result.scenario = read_scenario_flags(scenario->map());
  }
  for (const YamlValue& item : list(map, "cases")) result.cases.push_back(read_case(item.map()));
  if (map.good({"cases"}) && result.cases.empty()) map.value().error("'cases' is empty");
  skip_others(map);
  doc->finish();
  return result;
}

HardwareResult read_hardware_result(const std::string& path) {
  return parse_hardware_result(read_file(path), path);
}

}  // namespace moesim
