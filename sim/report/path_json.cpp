// SPDX-License-Identifier: Apache-2.0
// The critical path for programs.
#include <nlohmann/json.hpp>

#include "sim/report/path_report.h"

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

}  // namespace moesim
