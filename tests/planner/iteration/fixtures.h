// SPDX-License-Identifier: Apache-2.0
// Small models on small clusters, for iterations that run in milliseconds.
#pragma once

#include <memory>
#include <string>

#include "sim/base/data_files.h"
#include "sim/engine/port_backend.h"
#include "sim/planner/iteration/balanced_trace.h"
#include "sim/planner/iteration/planner.h"
#include "sim/topology/reader.h"

namespace moesim::test {

/// Eight GPUs on each of some nodes.
inline Topology h100_nodes(int nodes) {
  return read_topology(data_file("topologies", "h100-rail"),
                       {parse_override("nodes=" + std::to_string(nodes))})
      .topology;
}

inline GpuModels h100s(int gpus) {
  static const auto gpu =
      std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h100-sxm")));
  return GpuModels(static_cast<std::size_t>(gpus), gpu);
}

/// Four layers of 32 experts; the file describes only the experts.
inline MoeModel tiny() { return read_moe_model(data_file("models/moe", "tiny-moe")); }

/// A whole model: a dense layer before `layers` - 1 MoE layers.
inline MoeModel whole(int layers) {
  return parse_moe_model(
      "name: whole\nsource: test\nhidden: 1024\nlayers: " + std::to_string(layers) +
          "\nmoe_layers: {first: 1, count: " + std::to_string(layers - 1) +
          "}\nexperts: 32\ntop_k: 4\nexpert_ffn: 512\nexpert_matrices: 3\nactivations: bf16\n"
          "weights: bf16\ngate: {score: softmax}\nvocabulary: 32000\ndense_ffn: 4096\n"
          "attention: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 64}\n",
      "whole");
}

inline RoutingTrace tokens_for(const MoeModel& model, std::int64_t tokens, std::int64_t sequence) {
  TraceInfo info;
  info.model = model.name;
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.layers = model.moe_layers;
  return balanced_trace(info, tokens, sequence);
}

inline SystemSpec policy(const std::string& name) {
  return read_system(data_file("models/system", name));
}

}  // namespace moesim::test
