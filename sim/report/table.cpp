// SPDX-License-Identifier: Apache-2.0
#include "sim/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"

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

Row case_row(const Json& c, double baseline) {
  const Json& total = c["total"];
  const auto steps = c["steps"].get<double>();
  return {c["topology"],
          c["policy"],
          c["fidelity"],
          time(c["step_s"]),
          fmt::format("{:.2f}x", baseline / c["step_s"].get<double>()),
          time(total["compute_s"]),
          time(total["communication_s"]),
          time(total["exposed_communication_s"]),
          ratio(c["step_load_max_over_mean"]),
          to_string(Bytes(static_cast<std::int64_t>(
              total["traffic"]["other_host_bytes"].get<double>() / steps))),
          peak(total["peak_link"])};
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

/// What placements move, plan and hold: columns for tables in which some policy does.
void add_placement_columns(const std::vector<Json>& cases, std::vector<Row>& rows) {
  const bool moves = std::any_of(cases.begin(), cases.end(), [](const Json& c) {
    return parameter_bytes(c) > 0 || c["planning_s"].get<double>() > 0;
  });
  if (!moves) return;
  for (const char* name : {"params", "param bytes", "migrated", "planning", "memory"}) {
    rows[0].emplace_back(name);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& c = cases[i];
    const auto steps = c["steps"].get<double>();
    const auto per_step = [steps](std::int64_t bytes) {
      return to_string(Bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / steps)));
    };
    Row& row = rows[i + 1];
    row.push_back(time(c["total"]["parameter_communication_s"]));
    row.push_back(per_step(parameter_bytes(c)));
    row.push_back(per_step(c["total"]["migrated_bytes"].get<std::int64_t>()));
    row.push_back(time(c["planning_s"]));
    row.push_back(to_string(Bytes(c["peak_memory_bytes"].get<std::int64_t>())));
  }
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
  std::vector<Row> rows = {{"topology", "policy", "fidelity", "step", "speedup", "compute", "comm",
                            "exposed", "load max/mean", "off-host bytes", "busiest link"}};
  std::vector<Json> parsed;
  std::map<std::pair<std::string, std::string>, double> baselines;
  std::string not_run;
  for (const std::string& text : cases) {
    const Json& c = parsed.emplace_back(Json::parse(text));
    if (c.contains("unsuitable")) {
      not_run += fmt::format("# {} on {} was not run: {}\n", c["policy"].get<std::string>(),
                             c["topology"].get<std::string>(), c["unsuitable"].get<std::string>());
      parsed.pop_back();
      continue;
    }
    const auto key = std::pair(c["topology"].get<std::string>(), c["fidelity"].get<std::string>());
    const double baseline = baselines.try_emplace(key, c["step_s"].get<double>()).first->second;
    rows.push_back(case_row(c, baseline));
  }
  add_placement_columns(parsed, rows);
  add_routing_columns(parsed, rows);
  return align(rows, 3) + not_run;
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
