// SPDX-License-Identifier: Apache-2.0
#include "sim/model/host_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/units.h"

namespace moesim {

const std::vector<std::string>& graph_module_names() {
  static const std::vector<std::string> names = {
      "attn", "mamba", "mlp", "moe", "moe_router", "moe_preprocess", "full_iteration"};
  return names;
}

bool HostModel::takes_time() const {
  return per_kernel.value > 0 || per_module.value > 0 || per_collective.value > 0 ||
         per_graph.value > 0;
}

HostModel HostModel::slower(double factor) const {
  HostModel host = *this;
  for (Seconds* time :
       {&host.per_kernel, &host.per_module, &host.per_collective, &host.per_graph}) {
    *time = *time * factor;
  }
  host.assumed = false;
  return host;
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
  return text + fmt::format("; CUDA graphs of {}, {} each",
                            fmt::join(graphs.names(graph_module_names()), ", "),
                            to_string(per_graph));
}

}  // namespace moesim
