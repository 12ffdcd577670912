// SPDX-License-Identifier: Apache-2.0
// One step of one layer under HybridEP on a small cluster.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/planner/iteration/planner.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

inline constexpr int hidden = 128;
inline constexpr std::int64_t row_bytes = 2 * hidden;         // bf16
inline constexpr std::int64_t parameters = 3LL * hidden * 8;  // of an expert
inline constexpr std::int64_t expert_bytes = parameters * 2;  // bf16

/// One step of one layer on a small cluster.
struct HybridCase {
  HybridCase(int nodes, int gpus_per_node, int experts, int top_k, std::int64_t per_rank,
             const std::vector<int>& ids, int degree = 0, int nvlink_gigabytes = 400)
      : HybridCase(bare_nodes(nodes, gpus_per_node, nvlink_gigabytes), nodes, gpus_per_node,
                   experts, top_k, per_rank, ids, degree) {}
  HybridCase(Topology cluster, int nodes, int gpus_per_node, int experts, int top_k,
             std::int64_t per_rank, const std::vector<int>& ids, int degree = 0)
      : topology(std::move(cluster)),
        ep(degree == 0 ? nodes * gpus_per_node : degree),
        tokens(nodes * gpus_per_node, experts, top_k, per_rank, ids, ep),
        trace(tokens.info, {tokens.step}) {
    model.hidden = hidden;
    model.experts = experts;
    model.top_k = top_k;
    model.expert_ffn = 8;
  }
  PlannedStep plan(const std::string& placement, const std::string& dispatch, bool backward = true,
                   const std::string& schedule = "{kind: overlap, gather: step}") const {
    const SystemSpec system =
        parse_system("{name: t, source: test, routing: identity, placement: " + placement +
                         ", dispatch: " + dispatch + ", schedule: " + schedule + "}",
                     "test");
    Planner planner(system, topology, model, trace, PlannerOptions{ep, {0}, backward, true});
    return planner.plan(tokens.batch, 0);
  }
  /// What the placement says of its plans once it has made one.
  std::string forced(const std::string& options) const {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, placement: {kind: hybridep, " + options +
            "}, dispatch: hybridep, schedule: {kind: overlap, gather: step}}",
        "test");
    Planner planner(system, topology, model, trace, PlannerOptions{ep, {0}, true, false});
    planner.plan(tokens.batch, 0);
    return planner.layer_planner().forced();
  }
  PlannedStep hybrid(const std::string& options, bool backward = true) const {
    return plan("{kind: hybridep, " + options + "}", "hybridep", backward);
  }
  /// The plan delivers every token and result once.
  void prove(const PlannedStep& planned) const {
    LayerRouting routing{0, {}, planned.layers[0].chosen, &planned.layers[0].assignment()};
    for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
      const auto count = static_cast<std::size_t>(tokens.batch.ranks[r][0].count);
      routing.source.insert(routing.source.end(), count, GpuId(static_cast<std::int64_t>(r)));
    }
    check_delivery(planned.plan, {routing});
  }

  Topology topology;
  int ep;
  Tokens tokens;
  RoutingTrace trace;
  MoeModel model;
};

/// Every rank has one token for every expert.
inline HybridCase even_case(int nodes, int gpus_per_node, int experts, int ep = 0) {
  std::vector<int> ids;
  for (int i = 0; i < nodes * gpus_per_node * experts; ++i) ids.push_back(i % experts);
  return {nodes, gpus_per_node, experts, 1, experts, ids, ep};
}

inline HybridCase random_case(unsigned seed, int nodes, int gpus, int ep = 0) {
  std::mt19937 random(seed);
  const int experts = 2 * nodes * gpus;
  return {nodes, gpus, experts, 2, 5, random_ids(random, 5 * nodes * gpus, experts, 2), ep};
}

/// Ordered pairs of different GPUs, and bytes between them, of the exchanges of one name.
struct Sent {
  std::int64_t pairs = 0;
  std::int64_t bytes = 0;
  bool operator==(const Sent&) const = default;
};
inline Sent between(const PlannedStep& planned, const std::string& name,
                    Pass pass = Pass::forward) {
  Sent sent;
  for (const Op* op : exchanges(planned.plan, name)) {
    if (op->key.pass != pass) continue;
    const ByteMatrix& traffic = op->exchange()->traffic;
    sent.bytes += traffic.off_diagonal().value;
    for (int from = 0; from < traffic.ranks(); ++from) {
      for (const auto& entry : traffic.row(GpuId(from))) sent.pairs += entry.to != GpuId(from);
    }
  }
  return sent;
}

}  // namespace moesim
