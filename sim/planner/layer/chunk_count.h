// SPDX-License-Identifier: Apache-2.0
// In how many chunks a layer is fastest: adaptive pipelining, `chunks: auto`.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sim/mechanism/ep_groups.h"
#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"
#include "sim/planner/layer/replayed_layer.h"

namespace moesim {

/// A layer in r chunks, each with exchanges of A1 and A2 before and after experts of X: all
/// dispatches come before all combines, experts of a chunk between its own two.
Seconds time_in_chunks(int r, Seconds before, Seconds experts, Seconds after);

/// Chooses the degree of pipelining for every layer and step as Tutel does (arXiv 2206.03382,
/// adaptive pipelining): the fastest of 1, 2, 4 and 8 equal parts of every rank's tokens. Tutel
/// tries each and measures; here times are predicted: exchanges on the links with a part of the
/// rows, experts on the shipped model of the GPU with the most rows. If times are equal, the least
/// degree wins.
class ChunkCount {
 public:
  static constexpr std::array<int, 4> degrees = {1, 2, 4, 8};

  /// `model` must outlive it. Throws Error if a GPU has no model.
  ChunkCount(const EpGroups& groups, const MoeModel& model, DataType gemm_type, bool backward);

  /// 1 if the layer cannot be cut: its ranks split the tokens of an expert over replicas.
  int best(const LayerWork& work) const;
  /// Dispatch, experts and combine of a layer, backward too in training.
  Seconds time(const LayerWork& work, int chunks) const;

 private:
  Seconds expert_time(const LayerWork& work, int chunks, bool forward) const;

  EpGroups groups_;
  const MoeModel& model_;
  DataType gemm_type_;
  bool backward_;
  std::vector<GpuModel> gpus_;  // one of each kind
};

}  // namespace moesim
