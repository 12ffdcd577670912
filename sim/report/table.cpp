// SPDX-License-Identifier: Apache-2.0
#include "sim/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string time(const Json& seconds) { return to_string(Seconds(seconds.get<double>())); }

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

std::string layer_table(const std::string& case_json) {
  const Json c = Json::parse(case_json);
  const auto steps = c["steps"].get<double>();
  std::vector<Row> rows = {{"layer", "forward", "backward", "compute", "comm", "exposed",
                            "load max/mean", "bytes per link class and step"}};
  for (const Json& layer : c["layers"]) {
    rows.push_back({std::to_string(layer["layer"].get<int>()), time(layer["forward_s"]),
                    time(layer["backward_s"]), time(layer["compute_s"]),
                    time(layer["communication_s"]), time(layer["exposed_communication_s"]),
                    fmt::format("{:.2f}", layer["load_max_over_mean"].get<double>()),
                    classes(layer["traffic"], steps)});
  }
  return align(rows, 1);
}

}  // namespace moesim
