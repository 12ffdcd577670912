// SPDX-License-Identifier: Apache-2.0
// Whether the inputs of a grid know what its axes call them and change in them.
#include <algorithm>
#include <map>
#include <set>

#include "sim/base/data_files.h"
#include "sim/base/text.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/transport_inputs.h"
#include "sim/sweep/grid.h"

namespace moesim {
namespace {

constexpr int most_tried = 1000;  // scenarios; if none of them knows a key, no other will

std::string input_of(const std::string& key) { return key.substr(0, key.find_first_of(".:")); }

/// Whether what a change of one key does depends on another.
bool concerns(const std::string& other, const std::string& input) {
  const std::string head = input_of(other);
  return head == input || (input == "gpu" && head == "topology") ||
         (input == "transport" && head == "policy");
}

/// Reads one input of a scenario, all of its changes included.
void open_input(const Scenario& s, const std::string& input, InputCache& cache) {
  std::vector<Diagnostic> warnings;
  if (input == "model") {
    read_moe_model(data_file("models/moe", s.model), s.overrides_of("model", s.model));
  } else if (input == "topology" || input == "gpu") {
    for (const std::string& name : s.topologies) open_cluster(s, name, warnings, cache);
  } else {
    std::vector<SystemSpec> systems;
    for (const std::string& name : s.policies) {
      systems.push_back(
          read_system(data_file("models/system", name), s.overrides_of("policy", name)));
    }
    if (input == "transport") open_transports(s, systems, warnings, cache);
  }
}

/// What is wrong with a change itself; nothing if it can be made, or something else is wrong.
std::optional<Diagnostic> mistake_of(const Scenario& s, const Override& change,
                                     const std::string& input, InputCache& cache) {
  if (const auto lost = mistakes_in_reach(s, change); !lost.empty()) return lost.front();
  try {
    open_input(s, input, cache);
  } catch (const Error& e) {
    const std::string told = Override{change.path, change.value, ""}.str();
    for (const Diagnostic& d : e.diagnostics()) {
      if (d.file.ends_with(told)) return d;
    }
  } catch (const std::exception&) {
    return std::nullopt;  // a reason of the scenario
  }
  return std::nullopt;
}

}  // namespace

Diagnostic SweepGrid::placed(const Diagnostic& mistake, const std::string& key) const {
  const auto axes = text_.find("axes:");
  auto at = axes == std::string::npos ? axes : text_.find(key + ":", axes);
  if (at == std::string::npos) at = text_.find(key, axes);
  if (at == std::string::npos) at = text_.find(key + ":");
  if (at == std::string::npos)
    return error_in(path_, mistake.message, mistake.hint).diagnostics()[0];
  return error_at(path_, text_, at, mistake.message, mistake.hint).diagnostics()[0];
}

std::optional<Diagnostic> SweepGrid::mistake_in_name(std::size_t axis, std::size_t place,
                                                     const Override& change) const {
  static const std::map<std::string, std::string> folders = {
      {"topology", "topologies"}, {"model", "models/moe"}, {"policy", "models/system"}};
  const auto folder = folders.find(change.path);
  if (folder == folders.end()) return std::nullopt;
  std::vector<std::size_t> point(axes_.size(), 0);
  point[axis] = place;
  const Scenario s = at(point, false);
  const std::string& name = change.path == "topology" ? s.topologies.front()
                            : change.path == "model"  ? s.model
                                                      : s.policies.front();
  try {
    find_file("'" + change.path + "'", folder->second, name);
  } catch (const Error& e) {
    return placed(e.diagnostics().front(), change.path);
  }
  return std::nullopt;
}

/// With all points of the axes that say which input it is and what else changes in it.
std::optional<Diagnostic> SweepGrid::mistake_in_all(std::size_t axis, std::size_t place,
                                                    const Override& change,
                                                    InputCache& cache) const {
  const std::string input = input_of(change.path);
  std::vector<std::size_t> varied;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const bool matters = std::ranges::any_of(axes_[a].points, [&](const AxisPoint& point) {
      return std::ranges::any_of(point.changes,
                                 [&](const Override& o) { return concerns(o.path, input); });
    });
    if (a != axis && (axes_[a].variable || matters)) varied.push_back(a);
  }
  std::optional<Diagnostic> first;
  std::vector<std::size_t> point(axes_.size(), 0);
  if (axis < axes_.size()) point[axis] = place;
  for (int tried = 0; tried < most_tried; ++tried) {
    const auto mistake = mistake_of(at(point, false), change, input, cache);
    if (!mistake) return std::nullopt;
    if (!first) first = mistake;
    auto next = varied.begin();
    while (next != varied.end() && ++point[*next] == axes_[*next].points.size()) point[*next++] = 0;
    if (next == varied.end()) break;
  }
  return placed(*first, change.path);
}

void SweepGrid::check_inputs() const {
  std::vector<Diagnostic> mistakes;
  std::set<std::string> told;
  InputCache cache;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    std::set<std::string> looked_at;
    for (std::size_t p = 0; p < axes_[a].points.size(); ++p) {
      for (const Override& change : axes_[a].points[p].changes) {
        const std::string input = input_of(change.path);
        // Clusters take long to build: of their keys one value is looked at.
        const bool each = input == "policy" || input == "model" || change.path == "topology";
        if (!looked_at.insert(change.path + (each ? "=" + change.value : "")).second) continue;
        const auto mistake = changes_input(change.path) ? mistake_in_all(a, p, change, cache)
                                                        : mistake_in_name(a, p, change);
        if (mistake && told.insert(mistake->str()).second) mistakes.push_back(*mistake);
      }
    }
  }
  for (const Override& flag : flags_) {
    if (flag.path != "set" || !changes_input(flag.value)) continue;
    const auto mistake = mistake_in_all(axes_.size(), 0, parse_override(flag.value), cache);
    if (!mistake) continue;
    mistakes.push_back(error_in(flag.str(), mistake->message, mistake->hint).diagnostics()[0]);
  }
  if (!mistakes.empty()) throw Error(mistakes);
}

}  // namespace moesim
