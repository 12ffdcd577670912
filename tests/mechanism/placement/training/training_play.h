// SPDX-License-Identifier: Apache-2.0
// Placements of training systems on four GPUs, and what their decisions move.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/mechanism/placement/play.h"

namespace moesim {

/// Two nodes of two GPUs.
inline const Topology& two_nodes() {
  static const TopologyFile file =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml",
                    {parse_override("nodes=2"), parse_override("node.gpus=2"),
                     parse_override("node.nics.count=2")});
  return file.topology;
}

/// Experts of 144 parameters: 288 bytes of weights, 288 of gradients, 2016 with optimizer state;
/// rows of 16 bytes.
inline MoeModel toy_model(int experts, int top_k) {
  MoeModel model = toy_model();
  model.experts = experts;
  model.top_k = top_k;
  return model;
}

/// The placements of a training system on the two nodes.
class TrainingPlay : public Play {
 public:
  TrainingPlay(const std::string& placement, const MoeModel& model, int ep = 4, int layers = 1,
               bool backward = true)
      : Play(placement, two_nodes(), model, ep, layers, backward) {}

  /// Shows loads [rank][expert], for planners that look at nothing else; ranks hold equally many.
  LayerDecision show_loads(const std::vector<std::vector<int>>& loads) {
    std::vector<int> ids;
    for (const auto& of_rank : loads) {
      const std::vector<int> mine = ids_of(of_rank);
      ids.insert(ids.end(), mine.begin(), mine.end());
      EXPECT_EQ(mine.size(), ids_of(loads[0]).size());
    }
    return show(ids);
  }
};

// [rank][expert]
inline const std::vector<std::vector<int>> skewed_loads(4, {40, 4, 4, 4});
inline const std::vector<std::vector<int>> even_loads(4, {13, 13, 13, 13});

using Flows = std::map<std::pair<int, int>, std::int64_t>;

inline Flows flows_of(const ParamExchange& exchange) {
  Flows flows;
  for (int from = 0; from < exchange.traffic.ranks(); ++from) {
    for (const auto& entry : exchange.traffic.row(GpuId(from))) {
      flows[{from, entry.to.value}] = exchange.traffic.bytes(entry).value;
    }
  }
  return flows;
}

inline std::vector<Flows> flows_of(const std::vector<ParamExchange>& exchanges) {
  std::vector<Flows> flows;
  for (const auto& e : exchanges) flows.push_back(flows_of(e));
  return flows;
}

}  // namespace moesim
