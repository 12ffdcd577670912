// SPDX-License-Identifier: Apache-2.0
#include "sim/model/host_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/base/yaml.h"

namespace moesim {

const std::vector<std::string>& graph_module_names() {
  static const std::vector<std::string> names = {
      "attn", "mamba", "mlp", "moe", "moe_router", "moe_preprocess", "full_iteration"};
  return names;
}

GraphModules::GraphModules(std::initializer_list<GraphModule> modules) {
  for (const GraphModule module : modules) add(module);
}

std::vector<std::string> GraphModules::names() const {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < graph_module_names().size(); ++m) {
    if (has(static_cast<GraphModule>(m))) names.push_back(graph_module_names()[m]);
  }
  return names;
}

bool HostModel::takes_time() const {
  return per_kernel.value > 0 || per_module.value > 0 || per_collective.value > 0 ||
         per_graph.value > 0;
}

Seconds HostModel::time(const HostCalls& calls) const {
  return per_kernel * calls.kernels + per_module * calls.modules +
         per_collective * calls.collectives;
}

std::string HostModel::text() const {
  std::string text =
      fmt::format("{} per kernel, {} more per module, {} per collective call",
                  to_string(per_kernel), to_string(per_module), to_string(per_collective));
  if (graphs.empty()) return text + ", no CUDA graphs";
  return text + fmt::format("; CUDA graphs of {}, {} each", fmt::join(graphs.names(), ", "),
                            to_string(per_graph));
}

HostModel read_host_model(const YamlValue& value, const HostModel& absent) {
  if (value.is_scalar() && value.string() == "none") return {};
  const YamlMap map = value.map();
  HostModel host = absent;
  host.per_kernel = map.seconds("per_kernel", absent.per_kernel);
  host.per_module = map.seconds("per_module", absent.per_module);
  const Seconds per_call = host.per_kernel + host.per_module;
  host.per_collective = map.seconds("per_collective", per_call);
  host.per_graph = map.seconds("per_graph", per_call);
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
      if (!kind) item.error(fmt::format("'{}' is no kind of op", name), op_type_hint(name));
      if (kind) host.waits_for.push_back(type->kind);
    }
  }
  return host;
}

}  // namespace moesim
