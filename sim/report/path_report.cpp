// SPDX-License-Identifier: Apache-2.0
// The critical path for programs. The critical path for people.
#include "sim/report/path_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace moesim {
namespace {

using PathJson = nlohmann::ordered_json;

PathJson times_json(const TimeByResource& times, double plans) {
  PathJson json = PathJson::object();
  for (const auto& [name, time] : times) json[name] = time.value / plans;
  return json;
}

PathJson link_json(const PathPart& part, double plans) {
  if (part.links.empty()) return nullptr;
  const std::string name = longest_name(part.links);
  return {{"link", name}, {"s", part.links.at(name).value / plans}};
}

/// Indices of the values above 0, the largest first; of equals the lowest.
template <class Values, class Value>
std::vector<std::size_t> by_size(const Values& values, Value value) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t i) { return !(value(values[i]) > Seconds(0)); });
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return value(values[i]); });
  return order;
}

std::string bound_text(const PathPart& part) {
  const std::string name = longest_name(part.by);
  return fmt::format("{} {:.0f} %", name, 100 * (part.by.at(name) / part.time));
}

}  // namespace

PathJson path_json(const PathSums& path, double plans) {
  PathJson kinds = PathJson::array(), layers = PathJson::array(), gpus = PathJson::array();
  for (int k = 0; k < path_kind_count; ++k) {
    const PathPart& part = path.kinds[static_cast<std::size_t>(k)];
    if (part.time == Seconds(0)) continue;
    kinds.push_back({{"kind", name_of(static_cast<PathKind>(k))},
                     {"s", part.time.value / plans},
                     {"bound_by_s", times_json(part.by, plans)},
                     {"busiest_link", link_json(part, plans)}});
  }
  for (const auto& [layer, time] : path.layers) {
    layers.push_back(
        {{"layer", layer < 0 ? PathJson() : PathJson(layer)}, {"s", time.value / plans}});
  }
  for (std::size_t g = 0; g < path.gpus.size(); ++g) {
    if (path.gpus[g] == Seconds(0)) continue;
    gpus.push_back({{"gpu", g},
                    {"s", path.gpus[g].value / plans},
                    {"others_waited_s", path.waited[g].value / plans}});
  }
  return {{"length_s", path.length.value / plans},
          {"segments", path.segments},
          {"kinds", kinds},
          {"bound_by_s", times_json(resources_of(path), plans)},
          {"layers", layers},
          {"gpus", gpus}};
}

PathJson segments_json(const std::vector<PathSegment>& path, const Plan& plan) {
  PathJson list = PathJson::array();
  for (const PathSegment& segment : path) {
    const Op& op = plan[segment.op];
    list.push_back({{"op", segment.op.value},
                    {"name", op.label.text()},
                    {"kind", name_of(segment.idle ? PathKind::idle : path_kind_of(op))},
                    {"pass", name_of(op.key.pass)},
                    {"layer", op.key.layer < 0 ? PathJson() : PathJson(op.key.layer)},
                    {"microbatch", op.key.microbatch},
                    {"gpu", segment.gpu.value},
                    {"slowest_gpu", segment.slowest.value},
                    {"others_waited_s", segment.waited.value},
                    {"waits_for", name_of(segment.wait)},
                    {"start_s", segment.when.start.value},
                    {"end_s", segment.when.end.value}});
  }
  return list;
}

Table path_table(const PathSums& path, double plans) {
  Table table("critical_path", 1, {"on the path", "time", "share", "bound by", "busiest link"});
  for (const std::size_t k : by_size(path.kinds, [](const PathPart& part) { return part.time; })) {
    const PathPart& part = path.kinds[k];
    table.rows.push_back({name_of(static_cast<PathKind>(k)), part.time * (1 / plans),
                          percent_cell(part.time / path.length, 1), bound_text(part),
                          part.links.empty() ? "-" : longest_name(part.links)});
  }
  return table;
}

Table path_gpu_table(const PathSums& path, double plans, std::size_t most) {
  Table table("critical_gpus", 1, {"GPU", "on the path", "share", "others waited"});
  for (const std::size_t g : by_size(path.gpus, [](Seconds time) { return time; })) {
    if (table.rows.size() == most) break;
    table.rows.push_back({std::to_string(g), path.gpus[g] * (1 / plans),
                          percent_cell(path.gpus[g] / path.length, 1),
                          path.waited[g] * (1 / plans)});
  }
  return table;
}

std::string path_text(const PathSums& path) {
  if (!(path.length > Seconds(0))) return "-";
  const auto share = [&](Seconds time) { return 100 * (time / path.length); };
  const PathKind kind = longest_kind(path);
  // The way there and back is one thing to whoever looks for what to change.
  const Seconds tokens = path.of(PathKind::dispatch).time + path.of(PathKind::combine).time;
  if (tokens >= path.of(kind).time) return fmt::format("tokens {:.0f} %", share(tokens));
  return fmt::format("{} {:.0f} %", name_of(kind), share(path.of(kind).time));
}

}  // namespace moesim
