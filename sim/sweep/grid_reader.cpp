// SPDX-License-Identifier: Apache-2.0
// The axes of a grid.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/lower_case.h"
#include "sim/sweep/grid.h"
#include "sim/sweep/row.h"

namespace moesim {
namespace {

constexpr std::int64_t most_axis_points = 100'000;

/// "${name}" as it is in a file.
std::string written(const std::string& variable) { return "${" + variable + "}"; }

/// A value that a change of a key takes: YAML reads it again.
std::string value_text(const YamlValue& value) {
  return value.is_scalar() ? value.string() : value.json();
}

AxisPoint listed_point(const YamlValue& item) {
  AxisPoint point;
  const YamlMap map = item.map();
  for (const std::string& key : map.keys()) {
    const auto value = map.find(key);
    if (key == "name") {
      point.text = value->string();
    } else {
      point.changes.push_back({key, value_text(*value), ""});
    }
  }
  if (point.changes.empty()) item.error("the point changes nothing", "name keys and their values");
  if (!point.text.empty()) return point;
  for (const Override& change : point.changes) {
    point.text += fmt::format("{}{}={}", point.text.empty() ? "" : " ", change.path, change.value);
  }
  return point;
}

/// Columns of every row of a sweep that no key of a scenario has the name of.
const std::set<std::string> names_of_columns = {"id",     "state",    "reason",
                                                "moesim", "scenario", "notes"};

/// An axis is a column of the results, whose names SQLite tells apart by more than case.
void check_axis_name(const std::string& name, const YamlValue& value,
                     std::map<std::string, std::string>& known) {
  const std::string small = lower_case(name);
  const auto [other, is_new] = known.emplace(small, name);
  if (!is_new) {
    value.error(
        fmt::format("the names of the axes '{}' and '{}' differ only in case", other->second, name),
        "the results need a column for each: rename one");
  } else if (names_of_columns.contains(small) || is_input_hash(small)) {
    value.error(
        fmt::format("an axis cannot be named '{}': the results have a column '{}'", name, small),
        "another name for it");
  }
}

SweepAxis read_axis(const std::string& name, const YamlValue& value, const std::string& text) {
  SweepAxis axis{name, text.find(written(name)) != std::string::npos, {}};
  std::set<std::string> seen;
  if (!value.is_list()) {
    value.error(fmt::format("the axis '{}' needs a list of values", name), "for example [1, 2, 4]");
    return axis;
  }
  const auto items = value.list();
  if (items.empty()) value.error(fmt::format("the axis '{}' has no values", name));
  if (std::ssize(items) > most_axis_points) {
    value.error(fmt::format("the axis '{}' has more than {} values", name, most_axis_points));
  }
  for (const YamlValue& item : items) {
    AxisPoint point;
    if (item.is_map()) {
      point = listed_point(item);
    } else {
      point.text = value_text(item);
      if (!axis.variable) point.changes.push_back({name, point.text, ""});
    }
    if (!seen.insert(point.text).second) {
      item.error(fmt::format("the axis '{}' has '{}' twice", name, point.text),
                 "leave one of them out");
    }
    axis.points.push_back(std::move(point));
  }
  return axis;
}

}  // namespace

std::vector<SweepAxis> read_axes(const std::string& text, const std::string& path) {
  const auto doc = YamlDocument::from_text(text, path);
  const YamlMap root = doc->root().map();
  for (const std::string& key : root.keys()) root.find(key);  // read by others
  std::vector<SweepAxis> axes;
  if (const auto value = root.find("axes")) {
    const YamlMap map = value->map();
    std::map<std::string, std::string> known;
    for (const std::string& name : map.keys()) {
      check_axis_name(name, *map.find(name), known);
      axes.push_back(read_axis(name, *map.find(name), text));
    }
  }
  doc->finish();
  return axes;
}

}  // namespace moesim
