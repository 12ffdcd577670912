// SPDX-License-Identifier: Apache-2.0
// Layers of a few tokens, and the dispatches that tests evaluate on them.
#pragma once

#include <random>
#include <set>

#include "sim/planner/system.h"
#include "sim/topology/reader.h"
#include "sim/trace/memory_step.h"

namespace moesim {

inline const Topology& any_topology() {
  static const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml");
  return file.topology;
}

/// 4 experts of 3 x 8 x 6 = 144 parameters, bf16; top-2.
inline MoeModel toy_model() {
  MoeModel model;
  model.hidden = 8;
  model.experts = 4;
  model.top_k = 2;
  model.expert_ffn = 6;
  return model;
}

/// A dispatch of `text`, such as "dedup" or "{kind: hierarchical, depth: 2}".
inline std::unique_ptr<Dispatch> make_dispatch(const std::string& text,
                                               const Topology& topology = any_topology(),
                                               int ep = 0, const MoeModel& model = {}) {
  const SystemSpec system = parse_system(
      "{name: t, source: test, routing: identity, placement: contiguous, schedule: sequential, "
      "dispatch: " +
          text + "}",
      "test");
  return system.dispatch.make({topology, model, ep == 0 ? topology.gpu_count() : ep});
}

/// One layer of tokens, `per_rank` of them on each rank, in memory.
struct Tokens {
  Tokens(int gpus, int experts, int top_k, std::int64_t per_rank, const std::vector<int>& ids,
         int ep)
      : info{"t", "toy", experts, top_k, {0}, Phase::synthetic, ""},
        assignment(contiguous_placement(experts, gpus, ep), ep) {
    StepArrays arrays;
    arrays.ids = IdArray(experts, ids);
    arrays.sequence_lengths = {static_cast<std::int32_t>(gpus * per_rank)};
    step = make_step(info, std::move(arrays));
    for (int r = 0; r < gpus; ++r) batch.ranks.push_back({{r * per_rank, per_rank}});
  }
  LayerTokens view() const { return {batch, step->ids(0), assignment}; }

  TraceInfo info;
  Assignment assignment;
  std::shared_ptr<const TraceStep> step;
  Batch batch;
};

/// `top_k` different experts a token, uniformly.
inline std::vector<int> random_ids(std::mt19937& random, std::int64_t tokens, int experts,
                                   int top_k) {
  std::vector<int> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::set<int> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      const int e = static_cast<int>(random() % static_cast<unsigned>(experts));
      if (chosen.insert(e).second) ids.push_back(e);
    }
  }
  return ids;
}

}  // namespace moesim
