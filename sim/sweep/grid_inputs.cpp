// SPDX-License-Identifier: Apache-2.0
// Whether the inputs of a grid know what its axes call them and change in them.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "sim/base/data_files.h"
#include "sim/base/text.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/software_inputs.h"
#include "sim/sweep/grid.h"

namespace moesim {
namespace {

constexpr std::size_t most_tried = 1000;  // scenarios; if none of them knows a key, no other will

std::string input_of(const std::string& key) { return key.substr(0, key.find_first_of(".:")); }

/// Whether a change of `other` can decide if changes of `input` are valid: a topology chooses GPUs,
/// a policy its transport.
bool concerns(const std::string& other, const std::string& input) {
  const std::string head = input_of(other);
  return head == input || (input == "gpu" && head == "topology") ||
         (input == "transport" && head == "policy");
}

/// Reads one input of a scenario, all of its changes included.
void open_input(const Scenario& s, const std::string& input, InputCache& cache) {
  std::vector<Diagnostic> warnings;
  if (input == "model") {
    read_moe_model(data_file("models", s.model), s.overrides_of("model", s.model));
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

/// The scenario with this change. Of changes for all policies only those stay that its policy has
/// keys for.
Scenario with_known(Scenario s, const Override& change) {
  std::erase_if(
      s.set, [&](const Override& o) { return o.path == change.path && o.value == change.value; });
  const std::string policy = s.policies.front();
  s = without_unknown(std::move(s), policy);
  s.set.push_back(change);
  return s;
}

/// What is wrong with a change itself; nothing if it can be made, or something else is wrong.
std::optional<Diagnostic> mistake_of(const Scenario& s, const Override& change,
                                     const std::string& input, InputCache& cache) {
  if (const auto lost = mistakes_in_reach(s, change); !lost.empty()) return lost.front();
  try {
    open_input(change.path.starts_with("policy.") ? with_known(s, change) : s, input, cache);
  } catch (const Error& e) {
    const std::string told = change.str();
    for (const Diagnostic& d : e.diagnostics()) {
      if (d.file.ends_with(told)) return d;
    }
  } catch (const std::exception&) {
    return std::nullopt;  // something else in the scenario is wrong
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
      {"topology", "topologies"}, {"model", "models"}, {"policy", "models/system"}};
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

/// The first mistake if the change is one at all points, up to most_tried, of the axes that choose
/// or change its input.
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
  for (std::size_t tried = 0; tried < most_tried; ++tried) {
    const auto mistake = mistake_of(at(point, false), change, input, cache);
    if (!mistake) return std::nullopt;
    if (!first) first = mistake;
    auto next = varied.begin();
    while (next != varied.end() && ++point[*next] == axes_[*next].points.size()) point[*next++] = 0;
    if (next == varied.end()) break;
  }
  return placed(*first, change.path);
}

/// Reports changes of `set` that are mistakes everywhere: of any input if flags have them, of
/// policies if the file has.
void SweepGrid::check_sets(std::vector<Diagnostic>& mistakes, InputCache& cache) const {
  for (const Override& flag : flags_) {
    if (flag.path != "set" || !changes_input(flag.value)) continue;
    const auto mistake = mistake_in_all(axes_.size(), 0, parse_override(flag.value), cache);
    if (!mistake) continue;
    mistakes.push_back(error_in(flag.str(), mistake->message, mistake->hint).diagnostics()[0]);
  }
  for (const Override& change : at(std::vector<std::size_t>(axes_.size(), 0), false).set) {
    if (!change.path.starts_with("policy.") || !change.flag.starts_with("set ")) continue;
    if (auto mistake = mistake_in_all(axes_.size(), 0, change, cache)) {
      mistakes.push_back(*std::move(mistake));
    }
  }
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
        // Clusters take long to build: of each key below one only the first value is tried.
        const bool each = input == "policy" || input == "model" || change.path == "topology";
        if (!looked_at.insert(change.path + (each ? "=" + change.value : "")).second) continue;
        const auto mistake = changes_input(change.path) ? mistake_in_all(a, p, change, cache)
                                                        : mistake_in_name(a, p, change);
        if (mistake && told.insert(mistake->str()).second) mistakes.push_back(*mistake);
      }
    }
  }
  check_sets(mistakes, cache);
  if (!mistakes.empty()) throw Error(mistakes);
}

std::vector<Diagnostic> SweepGrid::left_out() const {
  const auto of_policies = [](const AxisPoint& point) {
    return std::ranges::any_of(point.changes, [](const Override& change) {
      return change.path == "policy" || change.path.starts_with("policy.");
    });
  };
  std::vector<std::vector<std::size_t>> tried = {std::vector<std::size_t>(axes_.size(), 0)};
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (!of_policies(axes_[a].points.front())) continue;
    const std::size_t so_far = tried.size();
    for (std::size_t p = 1; p < axes_[a].points.size() && tried.size() < most_tried; ++p) {
      for (std::size_t t = 0; t < so_far; ++t) {
        tried.push_back(tried[t]);
        tried.back()[a] = p;
      }
    }
  }
  std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> keys;
  for (const std::vector<std::size_t>& point : tried) {
    const Scenario all = at(point, false), own = without_unknown(all, all.policies.front());
    for (const Override& change : all.set) {
      if (!change.path.starts_with("policy.")) continue;
      const bool has = std::ranges::find(own.set, change.str(), &Override::str) != own.set.end();
      auto& [with, without] = keys[change.path];
      (has ? with : without).insert(all.policies.front());
    }
  }
  std::vector<Diagnostic> warnings;
  for (const auto& [key, policies] : keys) {
    const auto& [with, without] = policies;
    std::vector<std::string> never;
    std::ranges::set_difference(without, with, std::back_inserter(never));
    if (!with.empty() && !never.empty()) warnings.push_back(no_such_key(key, never));
  }
  return warnings;
}

}  // namespace moesim
