// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Figures = std::vector<std::pair<std::string, double>>;  // in the order of the document

constexpr const char* case_names[] = {"topology", "policy", "routing", "fidelity"};

Json read_result(const std::string& file, const std::string& text) {
  Json document = parse_json(text, {file});
  const bool result = document.is_object() && document.contains("cases") &&
                      document["cases"].is_array() && document.contains("format");
  if (!result)
    throw error_in(file, "is not a result of moesim", "moesim compare --json writes one");
  if (document["format"] != "moesim-result" || document.value("format_version", 0) != 2) {
    throw error_in(file,
                   "is a result of an older or a newer moesim, whose figures have other names",
                   "simulate again with --json");
  }
  return document;
}

/// Collects the figures of a case or a part of it; lists are of layers and steps, whose sums are
/// reported already.
void collect(const Json& part, const std::string& before, Figures& figures) {
  for (const auto& [key, value] : part.items()) {
    const std::string name = before.empty() ? key : before + "." + key;
    if (value.is_object()) collect(value, name, figures);
    if (value.is_number()) figures.emplace_back(name, value.get<double>());
  }
}

std::string name_of_case(const Json& c) {
  std::string name;
  for (const char* part : case_names) {
    if (!c.contains(part) || !c[part].is_string()) continue;
    name += (name.empty() ? "" : " ") + c[part].get<std::string>();
  }
  return name;
}

/// Seconds: "step_s", "breakdown.tokens_s", "parts_s.tokens".
bool is_time(const std::string& figure) {
  return figure.ends_with("_s") || figure.find("_s.") != std::string::npos;
}

double whole_time(const Json& c) {
  return c.contains("step_s") && c["step_s"].is_number() ? c["step_s"].get<double>() : 0;
}

class Comparer {
 public:
  Comparer(double tolerance, Table& table) : tolerance_(tolerance), table_(table) {}

  /// Whether the case moved.
  bool compare(const std::string& name, const Json& before, const Json& after) {
    const bool ran = !before.contains("unsuitable"), runs = !after.contains("unsuitable");
    if (ran != runs) {
      add(name, "runs", ran ? "yes" : "no", runs ? "yes" : "no", "");
      return true;
    }
    Figures old_figures, new_figures;
    collect(before, "", old_figures);
    collect(after, "", new_figures);
    const std::map<std::string, double> now(new_figures.begin(), new_figures.end());
    const double whole = std::max(whole_time(before), whole_time(after));
    bool moved = false;
    for (const auto& [figure, was] : old_figures) {
      const auto found = now.find(figure);
      if (found == now.end()) continue;                                // of another version
      if (figure == "speedup" || figure == "over_balanced") continue;  // it is its baseline's, too
      const double is = found->second;
      const double scale = is_time(figure) ? whole : std::max(std::abs(was), std::abs(is));
      if (std::abs(is - was) <= tolerance_ * scale) continue;
      moved = true;
      add(name, figure, number(was), number(is), was == 0 ? Cell("-") : change_cell(is / was - 1));
    }
    return moved;
  }
  void add(const std::string& name, const std::string& figure, const Cell& before,
           const Cell& after, const Cell& change) {
    table_.rows.push_back({name, figure, before, after, change});
  }

 private:
  static Cell number(double value) { return {fmt::format("{:.6g}", value), value}; }
  static Cell change_cell(double change) {
    return {fmt::format("{:+.2f} %", 100 * change), change};
  }

  double tolerance_;
  Table& table_;
};

/// Inputs that are not what they were: a reason, and no move by itself.
std::string changed_inputs(const Json& before, const Json& after) {
  std::string text;
  for (const char* key : {"trace", "model", "policies", "clusters", "set", "layers", "pass"}) {
    const bool both = before.contains(key) && after.contains(key);
    if (both && before[key] != after[key])
      text += fmt::format("{}{}", text.empty() ? "" : ", ", key);
  }
  return text.empty() ? "" : fmt::format("# inputs that differ: {}\n", text);
}

}  // namespace

Expectation expect(const std::string& file, const std::string& stored, const std::string& now,
                   double tolerance) {
  const Json before = read_result(file, stored), after = own_json(now);
  const std::string was = before.value("step", ""), is = after.value("step", "");
  if (was != is) {
    throw error_in(file, fmt::format("its steps are '{}', those of this run are '{}'", was, is),
                   "compare it with a run of the same kind of scenario");
  }
  std::map<std::string, const Json*> cases;
  for (const Json& c : after["cases"]) cases[name_of_case(c)] = &c;
  Table table("moves", 2, {"case", "figure", "expected", "now", "change"});
  Comparer comparer(tolerance, table);
  Expectation result;
  for (const Json& c : before["cases"]) {
    const std::string name = name_of_case(c);
    const auto found = cases.find(name);
    ++result.cases;
    if (found == cases.end()) {
      comparer.add(name, "case", "there", "missing", "");
      ++result.moved;
      continue;
    }
    result.moved += comparer.compare(name, c, *found->second) ? 1 : 0;
    cases.erase(found);
  }
  for (const auto& [name, c] : cases) {
    comparer.add(name, "case", "not there", "new", "");
    ++result.cases, ++result.moved;
  }
  result.moves.add(fmt::format("\n# against {}: {} of {} cases moved by more than {:g} %\n", file,
                               result.moved, result.cases, 100 * tolerance));
  result.moves.add(changed_inputs(before, after));
  if (!table.rows.empty()) result.moves.add(std::move(table));
  return result;
}

}  // namespace moesim
