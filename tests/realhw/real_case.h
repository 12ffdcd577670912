// SPDX-License-Identifier: Apache-2.0
// Steps of shipped policies on small clusters, planned from the committed trace for real execution.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "realhw/host/local_run.h"
#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/planner.h"
#include "sim/scenario/proof.h"
#include "sim/topology/reader.h"

namespace moesim {

inline const RoutingTrace& committed_trace() {
  static const RoutingTrace trace = RoutingTrace::open(MOESIM_ROOT "/traces/tiny-moe-train");
  return trace;
}

/// The model of the trace, narrowed.
inline MoeModel narrow_model(DataType activations, int matrices = 3) {
  MoeModel model = read_moe_model(data_file("models/moe", "tiny-moe"));
  model.hidden = 128;
  model.expert_ffn = 16;
  model.expert_matrices = matrices;
  model.activations = activations;
  return model;
}

/// Nodes of NVLink pairs under sockets if there are enough GPUs, so that every depth nests.
inline Topology small_cluster(int nodes, int gpus) {
  return read_topology(data_file("topologies", "hiermoe-a6000"),
                       {{"nodes", std::to_string(nodes), "test"},
                        {"node.gpus", std::to_string(gpus), "test"}})
      .topology;
}

/// The presets that hardware executes: fused kernels, dense models and shared experts on chosen
/// ranks are only simulated (can_execute.h).
inline std::vector<std::string> executed_policies() {
  std::vector<std::string> names = data_names("models/system");
  std::erase_if(names, [](const std::string& name) {
    const SystemSpec system = read_system(data_file("models/system", name));
    return system.dispatch.name == "fused" || system.placement.for_dense_models ||
           system.placement.name == "waterfill";
  });
  return names;
}

struct RealCaseOptions {
  std::string policy = "megatron";
  int nodes = 2, gpus = 4;
  std::int64_t tokens_per_rank = 3;
  int batch = 0;
  std::vector<int> layers = {1};
  bool backward = true;
  DataType activations = DataType::fp32;
  int expert_matrices = 3;
  int steps = 1;  // planned before, for planners that look at earlier loads
  RowFormat matrices = RowFormat::float32;
};

/// One planned step with all that executes it. Throws Unsuitable as the planner does.
inline RealCaseOptions one_layer(const std::string& policy) {
  RealCaseOptions o;
  o.policy = policy;
  return o;
}

struct RealCase {
  explicit RealCase(const RealCaseOptions& o)
      : topology(small_cluster(o.nodes, o.gpus)),
        model(narrow_model(o.activations, o.expert_matrices)),
        matrices(o.matrices) {
    const RoutingTrace& trace = committed_trace();
    const int ranks = topology.gpu_count();
    const Batches all = make_batches(trace, {ranks, o.tokens_per_rank, 1});
    PlannerOptions options;
    options.ep = default_ep(ranks, trace.info().experts);
    options.layers = o.layers;
    options.backward = o.backward;
    options.explicit_rows = true;
    // Oracles look at all batches they are given: a few are enough.
    const auto batches =
        std::span(all.batches).first(std::min<std::size_t>(24, all.batches.size()));
    options.batches = batches;
    Planner planner(read_system(data_file("models/system", o.policy)), topology, model, trace,
                    options);
    for (int step = 0; step <= o.steps; ++step) {
      const auto i = static_cast<std::size_t>(o.batch + step) % batches.size();
      planned.emplace(planner.plan(batches[i], step));
      routing = routing_of(*planned);
    }
    real = std::make_unique<RealStep>(planned->plan, model, routing);
  }
  RealCase(const RealCase&) = delete;

  /// Compiled when they are first asked for.
  std::vector<std::unique_ptr<LocalRank>>& ranks() {
    if (ranks_.empty()) ranks_ = all_ranks(*real, {matrices});
    return ranks_;
  }

  Comparison run(const Tamper& tamper = {}) {
    run_locally(ranks(), tamper);
    Comparison sum;
    for (auto& rank : ranks()) sum += compare(*real, rank->program, rank->device);
    return sum;
  }

  Topology topology;
  MoeModel model;
  RowFormat matrices;
  std::optional<PlannedStep> planned;
  std::vector<LayerRouting> routing;
  std::unique_ptr<RealStep> real;

 private:
  std::vector<std::unique_ptr<LocalRank>> ranks_;
};

}  // namespace moesim
