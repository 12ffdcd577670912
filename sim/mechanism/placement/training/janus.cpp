// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/janus.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"

namespace moesim {
namespace {

void add(JanusBytes& sum, GpuId from, GpuId to, int gpus_per_node, Bytes bytes) {
  if (from == to) return;
  sum.off_gpu += bytes;
  if (from.value / gpus_per_node != to.value / gpus_per_node) sum.across_nodes += bytes;
}

/// Fetches of one expert to the GPUs of the node that starts at `first`.
void fetch(const LoadMatrix& loads, ExpertId expert, GpuId owner, int first, int gpus_per_node,
           Bytes parameters, std::vector<ExpertTransfer>& fetches) {
  std::vector<GpuId> needing;
  for (int g = first; g < first + gpus_per_node; ++g) {
    if (loads.at(GpuId(g), expert) > 0) needing.emplace_back(g);
  }
  if (needing.empty()) return;
  GpuId from = owner;
  if (owner.value / gpus_per_node != first / gpus_per_node) {
    from = needing[expert.index() % needing.size()];
    fetches.push_back({expert, owner, from, parameters});
  }
  for (const GpuId to : needing) {
    if (to != from) fetches.push_back({expert, from, to, parameters});
  }
}

}  // namespace

JanusLayer janus_layer(const LoadMatrix& loads, const SlotTable& table, int gpus_per_node,
                       const JanusSizes& sizes) {
  const std::vector<GpuId> owners = owners_of(table, loads);
  if (gpus_per_node < 1 || loads.sources() % gpus_per_node != 0) {
    throw Error(fmt::format("{} GPUs do not form nodes of {}", loads.sources(), gpus_per_node));
  }
  JanusLayer layer;
  for (const ExpertId expert : ids_of<ExpertId>(owners)) {
    const GpuId owner = owners[expert.index()];
    for (const GpuId source : ids<GpuId>(loads.sources())) {
      add(layer.expert_centric_bytes, source, owner, gpus_per_node,
          sizes.row * (2 * sizes.passes * loads.at(source, expert)));
    }
    for (int first = 0; first < loads.sources(); first += gpus_per_node) {
      fetch(loads, expert, owner, first, gpus_per_node, sizes.parameters, layer.fetches);
    }
  }
  for (auto t = layer.fetches.rbegin(); t != layer.fetches.rend(); ++t) {
    layer.gradients.push_back({t->expert, t->to, t->from, sizes.gradients});
    add(layer.data_centric_bytes, t->from, t->to, gpus_per_node,
        sizes.parameters + sizes.gradients);
  }
  const auto key = [](const JanusBytes& b) { return std::tuple(b.across_nodes, b.off_gpu); };
  layer.data_centric = key(layer.data_centric_bytes) < key(layer.expert_centric_bytes);
  return layer;
}

}  // namespace moesim
