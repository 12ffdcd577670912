// SPDX-License-Identifier: Apache-2.0
// A layer of recorded tokens, and what routing mechanisms make of it.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/mechanism/routing.h"
#include "tests/mechanism/layer_tokens.h"

namespace moesim {

using Rows = std::vector<std::vector<int>>;  // [token][k]; -1: dropped

/// One layer of tokens with or without gate weights, `per_rank` on each of `ranks` ranks.
struct Recorded {
  Recorded(int experts_, int ranks, int top_k_, const std::vector<int>& ids,
           const std::vector<float>& weights = {})
      : info{"t", "toy", experts_, top_k_, {0}, Phase::synthetic, ""} {
    StepArrays arrays;
    arrays.ids = IdArray(experts_, ids);
    const auto tokens = static_cast<std::int64_t>(ids.size()) / top_k_;
    arrays.sequence_lengths = {static_cast<std::int32_t>(tokens)};
    arrays.weights = weights;
    step = make_step(info, std::move(arrays));
    for (int r = 0; r < ranks; ++r) {
      batch.ranks.push_back({{r * (tokens / ranks), tokens / ranks}});
    }
  }
  int experts() const { return info.experts; }
  Rows rows() const { return rows_of(step->ids(0)); }
  static Rows rows_of(IdRows ids) {
    Rows rows;
    for (std::int64_t t = 0; t < ids.tokens(); ++t) {
      rows.emplace_back();
      for (int k = 0; k < ids.top_k(); ++k) {
        const int id = ids.at(t, k);
        rows.back().push_back(ids.width() == 2 && id == IdRows::dropped ? -1 : id);
      }
    }
    return rows;
  }

  TraceInfo info;
  std::shared_ptr<const TraceStep> step;
  Batch batch;
};

inline std::unique_ptr<Routing> make_routing(const std::string& text, const Recorded& recorded,
                                             MoeModel model = {}, int ep = 0,
                                             const Topology& topology = any_topology()) {
  model.top_k = recorded.info.top_k;
  const SystemSpec system = parse_system(
      "{name: t, source: test, dispatch: dedup, placement: contiguous, schedule: sequential, "
      "routing: " +
          text + "}",
      "test");
  const int ranks = static_cast<int>(recorded.batch.ranks.size());
  const int fitting = std::gcd(ranks, topology.gpu_count());
  return system.routing.make({topology, model, recorded.experts(), ep == 0 ? fitting : ep});
}

struct Routed {
  Rows rows;
  RoutingChange change;
};

/// The experts lie as `placed` says; for rules that ask where.
inline Routed route(Routing& routing, const Recorded& recorded, const Assignment* placed) {
  Routed result;
  result.rows = Recorded::rows_of(
      routing.apply({*recorded.step, 0, recorded.batch, placed}, result.change).ids);
  return result;
}

/// The experts lie as the contiguous placement puts them; `ep` of 0: on all ranks.
inline Routed route(Routing& routing, const Recorded& recorded, int ep = 0) {
  if (!routing.after_placement()) return route(routing, recorded, nullptr);
  const int ranks = static_cast<int>(recorded.batch.ranks.size());
  const int size = ep == 0 ? ranks : ep;
  const Assignment placed(contiguous_placement(recorded.experts(), ranks, size), size);
  return route(routing, recorded, &placed);
}

inline Routed route(const std::string& text, const Recorded& recorded, const MoeModel& model = {},
                    int ep = 0) {
  return route(*make_routing(text, recorded, model, ep), recorded, ep);
}

inline Recorded random_layer(std::mt19937& random, int ranks, int per_rank, int experts, int top_k,
                             bool weights) {
  const auto ids = random_ids(random, ranks * per_rank, experts, top_k);
  std::vector<float> w;
  for (std::size_t i = 0; weights && i < ids.size(); ++i) {
    w.push_back(static_cast<float>(random() % 4 + 1) / 4);  // with ties
  }
  return Recorded(experts, ranks, top_k, ids, w);
}

/// A token's places by falling weight.
inline std::vector<int> order_of(const Recorded& r, std::int64_t token) {
  std::vector<std::pair<float, int>> keys;
  for (int k = 0; k < r.info.top_k; ++k) {
    keys.push_back({r.step->has_weights() ? -r.step->weight(0, token, k) : 0, k});
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> order;
  for (const auto& [weight, k] : keys) order.push_back(k);
  return order;
}

}  // namespace moesim
