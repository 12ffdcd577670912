// SPDX-License-Identifier: Apache-2.0
#include "sim/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/units.h"
#include "sim/report/case_report.h"
#include "sim/report/notes.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string time(const Json& seconds) { return to_string(Seconds(seconds.get<double>())); }
std::string ratio(double value) { return fmt::format("{:.2f}", value); }

/// Bytes of a step on every link class that carries any, in the topology's order.
std::string classes(const Json& traffic, double steps) {
  std::string text;
  for (const auto& [name, bytes] : traffic["link_class_bytes"].items()) {
    if (bytes.get<std::int64_t>() == 0) continue;
    if (!text.empty()) text += "  ";
    text += fmt::format("{} {}", name,
                        to_string(Bytes(static_cast<std::int64_t>(bytes.get<double>() / steps))));
  }
  return text;
}

std::string peak(const Json& link) {
  if (link.is_null()) return "-";
  return fmt::format("{} {:.0f} %", link["class"].get<std::string>(),
                     100 * link["utilization"].get<double>());
}

/// Which part of the step is the largest.
std::string bound_by(const Json& c) {
  const std::string what = c["bound_by"];
  if (what.empty()) return "-";
  const double part = c["breakdown"][what + "_s"].get<double>();
  return fmt::format("{} {:.0f} %", what, 100 * part / c["step_s"].get<double>());
}

Row case_row(const Json& c, double baseline) {
  const Json& total = c["total"];
  const auto steps = c["steps"].get<double>();
  return {c["topology"],
          c["policy"],
          time(c["step_s"]),
          fmt::format("{:.2f}x", baseline / c["step_s"].get<double>()),
          bound_by(c),
          time(total["compute_s"]),
          time(c["slowest_compute_s"]),
          time(total["exposed_communication_s"]),
          time(c["breakdown"]["waiting_s"]),
          time(c["overlapped_communication_s"]),
          ratio(total["load_max_over_mean"]),
          to_string(Bytes(static_cast<std::int64_t>(
              total["traffic"]["other_host_bytes"].get<double>() / steps))),
          peak(total["peak_link"]),
          to_string(Bytes(c["peak_memory_bytes"].get<std::int64_t>()))};
}

}  // namespace

std::string align(const std::vector<Row>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i])
                       : fmt::format("{:>{}}", row[i], widths[i]);
      if (i + 1 < row.size()) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

namespace {

/// Bytes of expert parameters and gradients that leave their GPU, all steps together.
std::int64_t parameter_bytes(const Json& c) {
  const Json& traffic = c["total"]["parameter_traffic"];
  return traffic["same_host_bytes"].get<std::int64_t>() +
         traffic["other_host_bytes"].get<std::int64_t>();
}

/// In exchanges of parameters that are not gradients.
Seconds weights_time(const Json& c) {
  const Json& total = c["total"];
  const double time = total["parameter_communication_s"].get<double>() -
                      total["gradient_communication_s"].get<double>();
  return Seconds(std::max(time, 0.0));
}

/// A column that stands only in tables in which some case has anything to say.
void add_column(const std::vector<Json>& cases, std::vector<Row>& rows, const char* name,
                double (*value)(const Json&), std::string (*cell)(const Json&)) {
  if (std::all_of(cases.begin(), cases.end(), [&](const Json& c) { return value(c) == 0; })) return;
  rows[0].emplace_back(name);
  for (std::size_t i = 0; i < cases.size(); ++i) rows[i + 1].push_back(cell(cases[i]));
}

std::string bytes_per_step(const Json& c, std::int64_t bytes) {
  return to_string(Bytes(bytes / c["steps"].get<std::int64_t>()));
}

bool overfull(const Json& c) { return c["model_memory_bytes"] > c["gpu_memory_bytes"]; }

/// What placements hold, move and plan.
void add_placement_columns(const std::vector<Json>& cases, std::vector<Row>& rows) {
  add_column(
      cases, rows, "all layers",
      [](const Json& c) { return c["model_memory_bytes"] == c["peak_memory_bytes"] ? 0.0 : 1.0; },
      [](const Json& c) {
        return to_string(Bytes(c["model_memory_bytes"].get<std::int64_t>())) +
               (overfull(c) ? "!" : "");
      });
  add_column(
      cases, rows, "grads",
      [](const Json& c) { return c["total"]["gradient_communication_s"].get<double>(); },
      [](const Json& c) { return time(c["total"]["gradient_communication_s"]); });
  add_column(
      cases, rows, "params", [](const Json& c) { return weights_time(c).value; },
      [](const Json& c) { return to_string(weights_time(c)); });
  add_column(
      cases, rows, "param bytes",
      [](const Json& c) { return static_cast<double>(parameter_bytes(c)); },
      [](const Json& c) { return bytes_per_step(c, parameter_bytes(c)); });
  add_column(
      cases, rows, "migrated",
      [](const Json& c) { return c["total"]["migrated_bytes"].get<double>(); },
      [](const Json& c) {
        return bytes_per_step(c, c["total"]["migrated_bytes"].get<std::int64_t>());
      });
  add_column(
      cases, rows, "planning", [](const Json& c) { return c["planning_s"].get<double>(); },
      [](const Json& c) { return time(c["planning_s"]); });
}

/// Cases that fit only because not all layers of the model are replayed.
std::string overfull_notes(const std::vector<Json>& cases) {
  std::string notes;
  for (const Json& c : cases) {
    if (!overfull(c)) continue;
    notes += fmt::format(
        "# {} on {} would not fit with all MoE layers of the model: {} of experts and activations, "
        "a GPU has {}\n",
        c["policy"].get<std::string>(), c["topology"].get<std::string>(),
        to_string(Bytes(c["model_memory_bytes"].get<std::int64_t>())),
        to_string(Bytes(c["gpu_memory_bytes"].get<std::int64_t>())));
  }
  return notes;
}

/// Inserts the fidelity, where cases differ in it, after topology and policy.
bool add_fidelity_column(const std::vector<Json>& cases, std::vector<Row>& rows) {
  const bool differ = std::any_of(cases.begin(), cases.end(), [&](const Json& c) {
    return c["fidelity"] != cases.front()["fidelity"];
  });
  if (!differ) return false;
  rows[0].insert(rows[0].begin() + 2, "fidelity");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    rows[i + 1].insert(rows[i + 1].begin() + 2, cases[i]["fidelity"].get<std::string>());
  }
  return true;
}

/// Choices that routing altered, a step: columns for tables in which some policy does, since it
/// computes something else than the others.
void add_routing_columns(const std::vector<Json>& cases, std::vector<Row>& rows) {
  const char* const keys[] = {"dropped_choices", "replaced_choices"};
  const bool altered = std::any_of(cases.begin(), cases.end(), [&](const Json& c) {
    return c[keys[0]].get<std::int64_t>() + c[keys[1]].get<std::int64_t>() > 0;
  });
  if (!altered) return;
  rows[0].insert(rows[0].end(), {"dropped choices", "replaced choices"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const char* key : keys) {
      rows[i + 1].push_back(
          fmt::format("{:.0f}", cases[i][key].get<double>() / cases[i]["steps"].get<double>()));
    }
  }
}

}  // namespace

std::string comparison_table(const std::vector<std::string>& cases) {
  std::vector<Row> rows = {{"topology", "policy", "step", "speedup", "bound by", "compute",
                            "slowest", "exposed", "waiting", "overlapped", "load max/mean",
                            "off-host bytes", "busiest link", "memory"}};
  std::vector<Json> parsed;
  using Comparison = std::pair<std::string, std::string>;  // topology, fidelity
  std::map<Comparison, std::string> first;
  std::map<Comparison, double> baselines;
  std::set<std::string> notes;  // once for all fidelities
  std::string not_run;
  const auto note = [&](const std::string& line) {
    if (notes.insert(line).second) not_run += line;
  };
  for (const std::string& text : cases) {
    const Json c = Json::parse(text);
    const std::string topology = c["topology"], policy = c["policy"];
    const Comparison key(topology, c["fidelity"]);
    const std::string& wanted = first.try_emplace(key, policy).first->second;
    if (const std::string reason = reason_not_run(text); !reason.empty()) {
      note(fmt::format("# {}\n", reason));
      continue;
    }
    const auto [baseline, fresh] = baselines.try_emplace(key, c["step_s"].get<double>());
    if (fresh && policy != wanted) {
      note(fmt::format("# speedups on {} are over {}, as {} was not run\n", topology, policy,
                       wanted));
    }
    rows.push_back(case_row(c, baseline->second));
    parsed.push_back(c);
  }
  add_placement_columns(parsed, rows);
  add_routing_columns(parsed, rows);
  const std::size_t left = add_fidelity_column(parsed, rows) ? 3 : 2;
  return align(rows, left) + overfull_notes(parsed) + not_run + notes_below(parsed);
}

std::string layer_table(const std::string& case_json) {
  const Json c = Json::parse(case_json);
  const auto steps = c["steps"].get<double>();
  std::vector<Row> rows = {{"layer", "forward", "backward", "compute", "comm", "exposed",
                            "load max/mean", "bytes per link class and step"}};
  for (const Json& layer : c["layers"]) {
    rows.push_back({std::to_string(layer["layer"].get<int>()), time(layer["forward_s"]),
                    time(layer["backward_s"]), time(layer["compute_s"]),
                    time(layer["communication_s"]), time(layer["exposed_communication_s"]),
                    ratio(layer["load_max_over_mean"]), classes(layer["traffic"], steps)});
  }
  return align(rows, 1);
}

}  // namespace moesim
