// SPDX-License-Identifier: Apache-2.0
// Small random layers on small clusters, replicas and split assignments included, where their
// choices go by an independent walk, and the proof that a dispatch delivers them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/plan/delivery.h"
#include "tests/mechanism/layer_tokens.h"
#include "tests/planner/schedule/sequential.h"

namespace moesim {

/// Nodes of `gpus` GPUs behind an NVSwitch, with a NIC (50 GB/s) for each; no latency, no overhead.
inline Topology bare_nodes(int nodes, int gpus, int nvlink_gigabytes = 400) {
  return std::move(
      parse_topology(
          fmt::format("source: test\nexchange_overhead: 0 us\nnodes: {}\nnode:\n  gpu: h100-sxm\n"
                      "  gpus: {}\n  nvlink: {{kind: switch, bandwidth: {} GB/s, latency: 0 us}}\n"
                      "  nics: {{count: {}, bandwidth: 50 GB/s, latency: 0 us}}\n{}",
                      nodes, gpus, nvlink_gigabytes, gpus,
                      nodes > 1 ? "fabric: {kind: switch}\n" : "fabric: {kind: none}\n"),
          "test.yaml")
          .topology);
}

struct Shape {
  int nodes, gpus, ep;
  int ranks() const { return nodes * gpus; }
};
inline const std::vector<Shape>& small_shapes() {
  static const std::vector<Shape> shapes = {{1, 4, 4}, {2, 2, 4}, {2, 4, 8}, {4, 4, 16},
                                            {4, 4, 8}, {2, 8, 8}, {3, 1, 3}, {2, 8, 4}};
  return shapes;
}
inline const Topology& topology_of(const Shape& shape) {
  static std::map<std::pair<int, int>, Topology> all;
  const std::pair key{shape.nodes, shape.gpus};
  auto it = all.find(key);
  if (it == all.end()) it = all.emplace(key, bare_nodes(shape.nodes, shape.gpus)).first;
  return it->second;
}

/// Every expert once per run as `contiguous` places them, and up to three more slots anywhere in
/// the run; half of the assignments spread choices over replicas by random quotas.
inline Assignment random_assignment(std::mt19937& random, const Shape& shape, int experts) {
  SlotTable table = contiguous_placement(experts, shape.ranks(), shape.ep).table();
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int extra = below(4); extra > 0; --extra) {
    table[static_cast<std::size_t>(below(shape.ranks()))].emplace_back(below(experts));
  }
  Placement placement(experts, table);
  if (random() % 2 == 0) return Assignment(placement, shape.ep);
  std::vector<std::vector<Shares>> shares(static_cast<std::size_t>(shape.ranks()));
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    for (int e = 0; e < experts; ++e) {
      Shares of_expert;
      for (const SlotId slot : placement.slots_of(ExpertId(e))) {
        const bool own_run = placement.gpu_of(slot).value / shape.ep == rank / shape.ep;
        if (own_run) of_expert.push_back({slot, 1 + below(3)});
      }
      shares[static_cast<std::size_t>(rank)].push_back(std::move(of_expert));
    }
  }
  return Assignment(std::move(placement), shares);
}

/// A random layer and, by a walk of its own, the slot that serves every choice.
struct RandomLayer {
  explicit RandomLayer(std::mt19937& random)
      : shape(small_shapes()[random() % small_shapes().size()]),
        experts(shape.ep * static_cast<int>(1 + random() % 3)),
        top_k(static_cast<int>(1 + random() % static_cast<unsigned>(std::min(experts, 6)))),
        per_rank(static_cast<std::int64_t>(random() % 4)),
        ids(random_ids(random, shape.ranks() * per_rank, experts, top_k)),
        tokens(shape.ranks(), experts, top_k, per_rank, ids, shape.ep) {
    tokens.assignment = random_assignment(random, shape, experts);
    model.hidden = 128;
    model.experts = experts;
    model.top_k = top_k;
    model.expert_ffn = 8;
    std::map<std::pair<int, int>, std::int64_t> used;  // choices of a (rank, expert) so far
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int rank = source(static_cast<int>(i) / top_k);
      const int expert = ids[i];
      SlotId slot = tokens.assignment.slot(GpuId(rank), ExpertId(expert));
      if (tokens.assignment.split()) {
        const auto shares = tokens.assignment.shares(GpuId(rank), ExpertId(expert));
        std::int64_t cycle = 0;
        for (const Share& share : shares) cycle += share.count;
        std::int64_t at = used[{rank, expert}]++ % cycle;
        for (const Share& share : shares) {
          if (at < share.count) {
            slot = share.slot;
            break;
          }
          at -= share.count;
        }
      }
      slots.push_back(slot);
    }
  }

  const Topology& topology() const { return topology_of(shape); }
  int token_count() const { return static_cast<int>(ids.size()) / top_k; }
  int source(int token) const { return token / static_cast<int>(per_rank); }
  SlotId slot(int token, int k) const { return slots[static_cast<std::size_t>(token * top_k + k)]; }
  int gpu(int token, int k) const {
    return static_cast<int>(tokens.assignment.placement().gpu_of(slot(token, k)).value);
  }
  /// A dispatch of `text` for this layer's cluster and model.
  std::unique_ptr<Dispatch> dispatch(const std::string& text) const {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, placement: contiguous, schedule: sequential, "
        "dispatch: " +
            text + "}",
        "test");
    return system.dispatch.make({topology(), model, shape.ep});
  }

  Shape shape;
  int experts, top_k;
  std::int64_t per_rank;
  std::vector<int> ids;
  Tokens tokens;
  MoeModel model;
  std::vector<SlotId> slots;  // [token * top_k + k]
};

/// Rows from -> to, of a phase.
using PairCounts = std::map<std::pair<int, int>, int>;

inline PairCounts listed(const std::vector<RowMove>& rows) {
  PairCounts counts;
  for (const RowMove& row : rows) ++counts[{row.from.value, row.to.value}];
  return counts;
}

inline PairCounts counted(const RowCounts& counts, std::size_t phase) {
  PairCounts result;
  for (int from = 0; from < counts.gpu_count; ++from) {
    for (int to = 0; to < counts.gpu_count; ++to) {
      const auto n = counts.phases[phase][static_cast<std::size_t>(from * counts.gpu_count + to)];
      if (n > 0) result[{from, to}] = static_cast<int>(n);
    }
  }
  return result;
}

/// Both evaluations of a dispatch equal what is expected of every phase.
inline void expect_rows(const Dispatch& dispatch, const RandomLayer& layer,
                        const std::vector<PairCounts>& expected) {
  const auto rows = dispatch.rows(layer.tokens.view());
  const auto counts = dispatch.count(layer.tokens.view());
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t phase = 0; phase < rows.size(); ++phase) {
    ASSERT_EQ(listed(rows[phase]), expected[phase]) << "phase " << phase;
    ASSERT_EQ(counted(counts, phase), expected[phase]) << "phase " << phase;
  }
  std::vector<std::int64_t> loads(counts.slots.size());
  for (const SlotId slot : layer.slots) ++loads[slot.index()];
  ASSERT_EQ(counts.slots, loads);
}

/// One layer's work, with explicit rows where asked for.
inline LayerWork work_of(const Dispatch& dispatch, const Tokens& tokens, bool rows) {
  LayerWork work{LayerDecision(tokens.assignment)};
  work.dispatch = &dispatch.choose(tokens.view());
  work.counts = work.dispatch->count(tokens.view());
  if (rows) work.rows = work.dispatch->rows(tokens.view());
  for (const auto& runs : tokens.batch.ranks) work.tokens_per_rank.push_back(runs[0].count);
  return work;
}

/// The plan of one layer, forward and backward, with explicit rows.
inline Plan plan_of(const Dispatch& dispatch, const Tokens& tokens, const MoeModel& model) {
  const std::vector<LayerWork> layers = {work_of(dispatch, tokens, true)};
  Plan plan;
  plan.gpus = layers[0].counts.gpu_count;
  StepOps step(plan, model, layers);
  issue_sequentially(step.ops, true);
  check_plan(plan);
  return plan;
}

/// A plan of only one stage's exchanges.
inline Plan exchanges_of(const Dispatch& dispatch, const Tokens& tokens, const MoeModel& model,
                         Stage stage) {
  const std::vector<LayerWork> layers = {work_of(dispatch, tokens, false)};
  Plan plan;
  plan.gpus = layers[0].counts.gpu_count;
  StepOps step(plan, model, layers);
  LayerOps& ops = step.ops;
  stage == Stage::dispatch ? ops.dispatch(0, Pass::forward) : ops.combine(0, Pass::forward);
  check_plan(plan);
  return plan;
}

/// Throws Error unless the plan of the layer delivers every token and result once.
inline void prove(const Dispatch& dispatch, const RandomLayer& layer) {
  LayerRouting routing{0, {}, {}, &layer.tokens.assignment};
  for (int t = 0; t < layer.token_count(); ++t) {
    routing.source.emplace_back(layer.source(t));
    auto& chosen = routing.chosen.emplace_back();
    for (int k = 0; k < layer.top_k; ++k) {
      chosen.emplace_back(layer.ids[static_cast<std::size_t>(t * layer.top_k + k)]);
    }
  }
  check_delivery(plan_of(dispatch, layer.tokens, layer.model), {routing});
}

/// Bytes of an exchange, from * gpus + to.
inline std::vector<std::int64_t> dense(const Op& op) {
  const ByteMatrix& traffic = op.exchange()->traffic;
  std::vector<std::int64_t> bytes;
  for (int from = 0; from < traffic.ranks(); ++from) {
    for (int to = 0; to < traffic.ranks(); ++to) {
      bytes.push_back(traffic.at(GpuId(from), GpuId(to)).value);
    }
  }
  return bytes;
}

/// The exchanges of a plan by name.
inline std::vector<const Op*> exchanges(const Plan& plan, const std::string& name) {
  std::vector<const Op*> found;
  for (const Op& op : plan.ops) {
    if (op.exchange() != nullptr && op.label == name) found.push_back(&op);
  }
  return found;
}

}  // namespace moesim
