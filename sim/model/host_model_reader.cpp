// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "sim/base/yaml.h"
#include "sim/model/host_model.h"

namespace moesim {

HostModel read_host_model(const YamlValue& value, const HostModel& absent) {
  if (value.is_scalar() && value.string() == "none") return {};
  const YamlMap map = value.map();
  HostModel host = absent;
  host.per_kernel = map.seconds("per_kernel", absent.per_kernel);
  host.per_module = map.seconds("per_module", absent.per_module);
  const Seconds per_call = host.per_kernel + host.per_module;
  host.per_collective = map.seconds("per_collective", per_call);
  host.per_graph = map.seconds("per_graph", per_call);
  for (const char* time : {"per_kernel", "per_module", "per_collective", "per_graph"}) {
    if (map.find(time)) host.assumed = false;
  }
  host.grouped = map.boolean("grouped", absent.grouped);
  if (const auto graphs = map.find("graphs")) {
    const auto items = graphs->is_list() ? graphs->list() : std::vector<YamlValue>{*graphs};
    const bool none = items.size() == 1 && items[0].is_scalar() && items[0].string() == "none";
    host.graphs = {};
    for (const YamlValue& item : none ? std::vector<YamlValue>() : items) {
      host.graphs.add(static_cast<GraphModule>(item.choice(graph_module_names())));
    }
  }
  if (const auto waits = map.find("waits_for")) {
    host.waits_for.clear();
    for (const YamlValue& item : waits->list()) {
      const std::string name = item.string();
      const auto type = find_op_type(name);
      const bool kind = type && *type == OpType{type->kind};
      if (!kind) item.error(fmt::format("'{}' is not a kind of op", name), op_type_hint(name));
      if (kind) host.waits_for.push_back(type->kind);
    }
  }
  return host;
}

}  // namespace moesim
