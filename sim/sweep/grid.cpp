// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/files.h"
#include "sim/base/text.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/require_flags.h"

namespace moesim {
namespace {

const std::vector<std::string> own_keys = {"axes"};
const std::string fidelity_axis = "fidelity";
constexpr std::int64_t most_scenarios = 100'000'000;
constexpr std::size_t most_filled = 16 << 20;

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

Override flag_of(const Override& change, const std::string& axis) {
  const std::string text = change.path + "=" + change.value;
  const std::string from = fmt::format("axis {}: {}", axis, text);
  if (changes_input(change.path)) return {"set", text, from};
  return {change.path, change.value, from};
}

SweepAxis list_axis(const std::string& key, const std::vector<std::string>& values) {
  SweepAxis axis{key, false, {}};
  for (const std::string& value : values)
    axis.points.push_back({value, {{key, quoted(value), ""}}});
  return axis;
}

}  // namespace

std::vector<Diagnostic> mistakes_in_reach(const Scenario& s, const Override& change) {
  std::vector<Diagnostic> lost = unreached({change}, "topology", s.topologies);
  const auto add = [&](const std::vector<Diagnostic>& more) {
    lost.insert(lost.end(), more.begin(), more.end());
  };
  add(unreached({change}, "model", {s.model}));
  add(unreached({change}, "policy", s.policies));
  add(unreached({change}, "scenario", s.policies));
  return lost;
}

bool changes_input(const std::string& key) {
  const std::string input = key.substr(0, key.find_first_of(".:"));
  return key.size() > input.size() &&
         (input == "topology" || input == "model" || input == "gpu" || input == "policy" ||
          input == "transport" || key.starts_with("scenario:"));
}

SweepGrid SweepGrid::read(const std::string& given, const std::vector<Override>& flags) {
  if (given.empty()) {
    require_flags(flags);
    return parse("{}", "", flags);
  }
  const std::string path = scenario_file(given);
  return parse(read_file(path), path, flags);
}

SweepGrid SweepGrid::parse(const std::string& text, const std::string& path,
                           const std::vector<Override>& flags) {
  SweepGrid grid;
  grid.path_ = path;
  grid.text_ = text;
  grid.flags_ = flags;
  grid.axes_ = read_axes(grid.text_, grid.path_);
  grid.add_lists();
  std::stable_partition(grid.axes_.begin(), grid.axes_.end(),
                        [](const SweepAxis& axis) { return axis.name != fidelity_axis; });
  grid.check_size();
  grid.check_points();
  return grid;
}

void SweepGrid::check_size() const {
  double size = 1;
  for (const SweepAxis& axis : axes_) {
    size *= static_cast<double>(axis.points.size());
    if (!axis.points.empty()) continue;
    throw error_in(path_,
                   fmt::format("the axis '{}' has no point that fits the cluster", axis.name),
                   "leave out its question, or take another cluster");
  }
  if (size > static_cast<double>(most_scenarios)) {
    throw error_in(path_, fmt::format("the axes make {:.3g} scenarios; at most {} can be", size,
                                      most_scenarios));
  }
}

/// Lists of the scenario itself, which make the grid of a comparison.
void SweepGrid::add_lists() {
  const Scenario first = at(std::vector<std::size_t>(axes_.size(), 0), false);
  std::vector<SweepAxis> lists;
  const auto add = [&](const std::string& key, const std::vector<std::string>& values) {
    if (values.size() > 1) lists.push_back(list_axis(key, values));
  };
  add("topology", first.topologies);
  add("policy", first.policies);
  std::vector<std::string> fidelities, routings;
  for (const Fidelity f : first.fidelities) {
    fidelities.push_back(fidelity_names[static_cast<std::size_t>(f)]);
  }
  add(fidelity_axis, fidelities);
  for (const RoutingSource source : first.routings()) {
    routings.push_back(routing_source_names[static_cast<std::size_t>(source)]);
  }
  add("routing", routings);
  axes_.insert(axes_.begin(), lists.begin(), lists.end());
}

/// Every point once, with the first ones of the other axes: a misspelt key or a value of the wrong
/// kind is found before anything runs.
void SweepGrid::check_points() const {
  std::vector<Diagnostic> mistakes;
  std::set<std::string> told;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    std::vector<std::size_t> point(axes_.size(), 0);
    for (; point[a] < axes_[a].points.size(); ++point[a]) {
      try {
        const Scenario s = at(point, false);
        if (s.topologies.size() * s.policies.size() * s.fidelities.size() == 1) continue;
        throw error_in(path_,
                       fmt::format("the point '{}' of the axis '{}' is a list",
                                   axes_[a].points[point[a]].text, axes_[a].name),
                       "a point has one topology, policy and fidelity");
      } catch (const Error& e) {
        for (const Diagnostic& d : e.diagnostics()) {
          if (told.insert(d.str()).second) mistakes.push_back(d);
        }
      }
    }
  }
  if (!mistakes.empty()) throw Error(mistakes);
}

SweepGrid SweepGrid::with_axes(const std::vector<SweepAxis>& axes) const {
  SweepGrid grid = *this;
  for (const SweepAxis& axis : axes) {
    std::erase_if(grid.axes_, [&](const SweepAxis& old) { return old.name == axis.name; });
    grid.axes_.insert(grid.axes_.begin(), axis);
  }
  grid.check_size();
  grid.check_points();
  return grid;
}

SweepGrid SweepGrid::at_fidelity(Fidelity fidelity) const {
  SweepGrid grid = *this;
  std::erase_if(grid.axes_, [](const SweepAxis& axis) { return axis.name == fidelity_axis; });
  grid.flags_.push_back(
      {fidelity_axis, fidelity_names[static_cast<std::size_t>(fidelity)], "fidelity"});
  return grid;
}

std::int64_t SweepGrid::size() const {
  std::int64_t size = 1;
  for (const SweepAxis& axis : axes_) size *= std::ssize(axis.points);
  return size;
}

std::int64_t SweepGrid::unit_size() const {
  return !axes_.empty() && axes_.back().name == fidelity_axis ? std::ssize(axes_.back().points) : 1;
}

std::vector<std::size_t> SweepGrid::places(std::int64_t id) const {
  std::vector<std::size_t> point(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0;) {
    const std::int64_t count = std::ssize(axes_[a].points);
    point[a] = static_cast<std::size_t>(id % count);
    id /= count;
  }
  return point;
}

std::vector<const AxisPoint*> SweepGrid::points(std::int64_t id) const {
  std::vector<const AxisPoint*> points;
  const auto place = places(id);
  for (std::size_t a = 0; a < axes_.size(); ++a) points.push_back(&axes_[a].points[place[a]]);
  return points;
}

/// The text with the values of its variables, which may name those behind them, many times each.
std::string SweepGrid::filled(const std::vector<std::size_t>& point) const {
  std::string text = text_;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (!axes_[a].variable) continue;
    const std::string name = "${" + axes_[a].name + "}", &value = axes_[a].points[point[a]].text;
    std::string next;
    std::size_t at = 0;
    for (auto i = text.find(name); i != std::string::npos; i = text.find(name, at)) {
      next.append(text, at, i - at).append(value);
      at = i + name.size();
      if (next.size() > most_filled) {
        throw error_in(path_, fmt::format("with its variables filled in it has more than {} bytes",
                                          most_filled));
      }
    }
    text = next.append(text, at);
  }
  if (const auto left = text.find("${"); left != std::string::npos) {
    throw error_at(path_, text, left, "no axis has the name of this variable",
                   "a variable is an axis whose name is not a key");
  }
  return text;
}

Scenario SweepGrid::at(const std::vector<std::size_t>& point, bool all_fidelities) const {
  const std::string text = filled(point);
  std::vector<Override> flags;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (all_fidelities && axes_[a].name == fidelity_axis) {
      std::vector<std::string> all;
      for (const AxisPoint& each : axes_[a].points) all.push_back(each.text);
      flags.push_back({fidelity_axis, nlohmann::json(all).dump(), ""});
      continue;
    }
    for (const Override& change : axes_[a].points[point[a]].changes) {
      flags.push_back(flag_of(change, axes_[a].name));
    }
  }
  std::vector<Override> all = flags_;  // axes win over flags, which win over the file
  all.insert(all.end(), flags.begin(), flags.end());
  return parse_scenario(text, path_, reached(text, all), own_keys);
}

/// Without the changes of only one input that this scenario does not have.
std::vector<Override> SweepGrid::reached(const std::string& text,
                                         const std::vector<Override>& flags) const {
  const auto names_one = [](const Override& flag) {
    return flag.path == "set" && flag.value.find(':') < flag.value.find_first_of(".=");
  };
  std::vector<Override> kept;
  std::ranges::remove_copy_if(flags, std::back_inserter(kept), names_one);
  if (kept.size() == flags.size()) return flags;
  const Scenario without = parse_scenario(text, path_, kept, own_keys);
  kept.clear();
  std::ranges::copy_if(flags, std::back_inserter(kept), [&](const Override& flag) {
    return !names_one(flag) || mistakes_in_reach(without, parse_override(flag.value)).empty();
  });
  return kept;
}

Scenario SweepGrid::unit(std::int64_t number) const {
  Scenario unit = at(places(number * unit_size()), true);
  const std::string policy = unit.policies.front();
  return without_unknown(std::move(unit), policy);
}

std::vector<Fidelity> SweepGrid::fidelities() const {
  const Scenario first = at(places(0), true);
  std::set<Fidelity> all(first.fidelities.begin(), first.fidelities.end());
  for (const SweepAxis& axis : axes_) {
    for (const AxisPoint& point : axis.points) {
      for (const Override& change : point.changes) {
        if (change.path != fidelity_axis) continue;
        for (std::size_t f = 0; f < fidelity_names.size(); ++f) {
          if (change.value.find(fidelity_names[f]) != std::string::npos) {
            all.insert(static_cast<Fidelity>(f));
          }
        }
      }
    }
  }
  return {all.begin(), all.end()};
}

std::string SweepGrid::hash() const {
  nlohmann::json json = {{"text", text_}};
  for (const Override& flag : flags_) json["flags"].push_back({flag.path, flag.value});
  for (const SweepAxis& axis : axes_) {
    for (const AxisPoint& point : axis.points) json["axes"][axis.name].push_back(point.text);
  }
  return hash_of(json.dump());
}

}  // namespace moesim
