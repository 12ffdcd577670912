// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/advice_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"

namespace moesim {
namespace {

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
