// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/advice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"

namespace moesim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The reason without numbers, their units and what is in parentheses. Names in quotes stay.
std::string pattern_of(const std::string& reason) {
  static const std::regex unit(R"(^ [kMGTP]?i?B\b)");
  std::string pattern;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < reason.size(); ++i) {
    const char c = reason[i];
    if (!quoted && c == '(') ++depth;
    if (!quoted && c == ')') --depth;
    if (depth > 0) continue;
    // An apostrophe within a word opens no name.
    if (c == '\'' && (quoted || i == 0 || !is_word(reason[i - 1]))) quoted = !quoted;
    const bool starts = std::isdigit(static_cast<unsigned char>(c)) != 0 && !quoted &&
                        (i == 0 || (!is_word(reason[i - 1]) && reason[i - 1] != '-'));
    if (!starts) {
      pattern += c;
      continue;
    }
    pattern += '#';
    while (i + 1 < reason.size() && (is_word(reason[i + 1]) || reason[i + 1] == '.')) ++i;
    std::smatch found;
    const auto rest = reason.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (std::regex_search(rest, reason.end(), found, unit)) {
      i += static_cast<std::size_t>(found.length());
    }
  }
  return pattern;
}

/// Of memory that a candidate lacks, so that of two reasons the nearer one is told.
double shortfall_of(const std::string& reason) {
  static const std::regex lacks(R"(([0-9.]+) ([kMGTP]?)B too much)");
  std::smatch found;
  if (!std::regex_search(reason, found, lacks)) return std::numeric_limits<double>::infinity();
  double bytes = std::stod(found[1].str());
  for (const char prefix : {'k', 'M', 'G', 'T', 'P'}) {
    if (found[2].length() == 0) break;
    bytes *= 1000;
    if (found[2].str()[0] == prefix) break;
  }
  return bytes;
}

constexpr std::size_t most_resources = 3;  // that are reported

const std::vector<std::string> listed_axes = {"topology", "policy", "routing", "fidelity"};

std::optional<std::string> header_of(const Scenario& scenario, const std::string& version) {
  try {
    InputCache cache;
    const Inputs inputs = open_shared_inputs(scenario, cache);
    return result_header(scenario, inputs, version);
  } catch (const Error&) {
    return std::nullopt;  // a reason of some candidates, told with theirs
  }
}

std::vector<std::string> texts_of(const SweepAxis& axis) {
  std::vector<std::string> texts;
  for (const AxisPoint& point : axis.points) texts.push_back(point.text);
  return texts;
}

/// Whether a point is a name of a list, which may be in quotes, and no more.
bool is_name(const AxisPoint& point) {
  if (point.changes.size() != 1) return false;
  const std::string& value = point.changes[0].value;
  return value == point.text || value == fmt::format("\"{}\"", point.text);
}

/// Its points as one scenario has them, unless a point is more than a name.
Scenario with_lists(Scenario scenario, const SweepGrid& grid) {
  for (const SweepAxis& axis : grid.axes()) {
    if (!std::ranges::all_of(axis.points, is_name)) continue;
    if (axis.name == "topology") scenario.topologies = texts_of(axis);
    if (axis.name == "policy") scenario.policies = texts_of(axis);
  }
  return scenario;
}

/// The numbers of an axis in one unit, else none.
std::vector<double> numbers_of(const SweepAxis& axis) {
  std::vector<double> numbers;
  std::string unit;
  for (const AxisPoint& point : axis.points) {
    NumberWithUnit number;
    if (!split_unit(point.text, number)) return {};
    if (numbers.empty()) unit = number.unit;
    if (number.unit != unit) return {};
    numbers.push_back(number.number);
  }
  return numbers;
}

}  // namespace

std::string SharedReason::text() const {
  return fmt::format("{} cannot be{}: {}", count, varies ? ", such as" : "", example);
}

std::vector<SharedReason> shared_reasons(const std::map<std::int64_t, SweepRow>& rows) {
  std::map<std::string, SharedReason> by_pattern;
  for (const auto& [id, row] : rows) {
    if (row.reason.empty()) continue;
    SharedReason& shared = by_pattern[pattern_of(row.reason)];
    if (shared.count > 0) shared.varies |= shared.example != row.reason;
    if (shared.count == 0 || shortfall_of(row.reason) < shortfall_of(shared.example)) {
      shared.example = row.reason;
      shared.candidate = id;
    }
    ++shared.count;
  }
  std::vector<SharedReason> all;
  for (auto& [pattern, shared] : by_pattern) all.push_back(std::move(shared));
  std::ranges::stable_sort(all, std::greater<>(), &SharedReason::count);
  return all;
}

std::string notes_of(const std::vector<const SweepRow*>& rows) {
  std::set<std::string> all;
  for (const SweepRow* row : rows) {
    const std::string note = text_in(*row, "notes");
    if (!note.empty()) all.insert(fmt::format("# {} {}\n", text_in(*row, "policy"), note));
  }
  return fmt::format("{}", fmt::join(all, ""));
}

std::string degrees_of(const SweepGrid& grid, const std::vector<const SweepRow*>& rows) {
  const auto says_none = [](const SweepAxis& axis) {
    return axis.name == "policy" || axis.name == "routing";
  };
  if (!std::ranges::all_of(grid.axes(), says_none)) return "";
  std::map<double, std::set<std::string>> policies;  // by degree
  for (const SweepRow* row : rows) {
    policies[figure_number(*row, "ep")].insert(text_in(*row, "policy"));
  }
  std::string text;
  for (const auto& [ep, names] : policies) {
    if (policies.size() > 1) text += fmt::format("# ep {}: {}\n", ep, fmt::join(names, ", "));
  }
  return text;
}

std::string words_of(const std::vector<ResourceFactor>& found) {
  if (found.empty()) {
    return fmt::format("with no resource of the cluster up to {:g} times as large or as small",
                       farthest_factor);
  }
  std::vector<std::string> all;
  for (const ResourceFactor& b : found) {
    all.push_back(fmt::format("{} {:.2f} times", b.resource, b.factor));
    if (all.size() == most_resources) break;
  }
  return fmt::format("with {} as now", fmt::join(all, ", or with "));
}

void throw_reasons(const Candidates& candidates, bool barred) {
  const SweepGrid& grid = candidates.grid();
  std::vector<Diagnostic> all;
  for (const SharedReason& reason : shared_reasons(candidates.rows())) {
    all.push_back({Severity::error, "", 0, 0, reason.varies ? reason.text() : reason.example, "",
                   hint_about(grid, reason.candidate)});
  }
  if (barred) {
    all.push_back({Severity::error, "", 0, 0, "no candidate may win", "",
                   "all that can be simulated are lossy, or have balanced routing: "
                   "--lossy allow, --routing recorded"});
    throw Error(all);
  }
  const std::int64_t unseen = grid.size() - std::ssize(candidates.rows());
  const std::string hint =
      unseen == 0 ? "" : fmt::format("--budget was too short for {} of them", unseen);
  all.push_back({Severity::error, "", 0, 0, "no candidate could be simulated", "", hint});
  throw Error(all);
}

std::string advice_header(const SweepGrid& grid, const std::string& version) {
  Scenario first = grid.unit(0);
  first.fidelities = {Fidelity::port};
  first.p2p_order = P2pOrder::all_at_once;
  auto text = header_of(with_lists(first, grid), version);
  if (!text) text = header_of(first, version);
  if (!text) return "";
  std::vector<std::string> of_first;
  const auto points = grid.points(0);
  for (std::size_t a = 0; a < points.size(); ++a) {
    const std::string& name = grid.axes()[a].name;
    if (std::ranges::find(listed_axes, name) != listed_axes.end()) continue;
    of_first.push_back(fmt::format("{} {}", name, points[a]->text));
  }
  if (of_first.empty()) return *text;
  return *text +
         fmt::format("# the above with {}: of the first candidate\n", fmt::join(of_first, ", "));
}

std::string hint_about(const SweepGrid& grid, std::int64_t candidate) {
  try {
    InputCache cache;
    open_shared_inputs(grid.unit(candidate), cache);
    return "";
  } catch (const Error& e) {
    return e.diagnostics().front().hint;
  }
}

std::string edges_of_ranges(const SweepGrid& grid, std::int64_t candidate) {
  std::string text;
  const auto points = grid.points(candidate);
  for (std::size_t a = 0; a < points.size(); ++a) {
    const SweepAxis& axis = grid.axes()[a];
    const std::vector<double> numbers = numbers_of(axis);
    if (numbers.size() < 3) continue;
    NumberWithUnit best;
    split_unit(points[a]->text, best);
    const bool least = best.number == std::ranges::min(numbers);
    if (!least && best.number != std::ranges::max(numbers)) continue;
    text += fmt::format("# the best {} is the {} that was tried, {}: the edge of the range\n",
                        axis.name, least ? "least" : "largest", points[a]->text);
  }
  return text;
}

std::string why_ended(const SearchProgress& p) {
  if (p.interrupted) {
    return fmt::format("# interrupted: {} of {} candidates are known\n", p.known, p.all);
  }
  if (p.known == p.all) return p.over ? "# the time was over\n" : "";
  return fmt::format(
      "# the time was over: nothing is known of {} candidates, for which --budget was too short\n",
      p.all - p.known);
}

}  // namespace moesim
