// SPDX-License-Identifier: Apache-2.0
// What the execution of a whole iteration needs in addition to its plan: the model, who holds which
// part of it, and what an iteration's tokens are.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/plan/group.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

/// A place of the pipeline on a stage.
struct HeldChunk {
  int position = 0;
  std::vector<StagePart> parts;  // in the order in which a token passes them
};

struct HeldStage {
  Group gpus;  // tensor groups one after the other, each a replica with microbatches of its own
  std::vector<HeldChunk> chunks;
  /// [place in a tensor group] orders in which those that hold the same dense parameters pass
  /// gradients and weights on, each with an equal share.
  std::vector<std::vector<std::vector<GpuId>>> rings;
};

/// Where a GPU is on its stage.
struct HeldPlace {
  int replica = 0;
  int part = 0;  // of its tensor group
};

struct HeldIteration {
  MoeModel model;
  std::vector<HeldStage> stages;
  int tp = 1;                       // tensor-parallel GPUs of each replica, with divided sequences
  int microbatches = 0;             // of each replica
  int micro_batch = 0;              // sequences of a microbatch
  int sequence = 0;                 // tokens
  int zero = 0;                     // at most 1
  bool gathers_parameters = false;  // zero 1: at the beginning instead of the end

  int positions() const {
    int count = 0;
    for (const HeldStage& stage : stages) count += static_cast<int>(stage.chunks.size());
    return count;
  }
  HeldPlace place(const HeldStage& stage, GpuId gpu) const {
    const auto member = static_cast<int>(stage.gpus.member(gpu));
    return {member / tp, member % tp};
  }
  /// Of a replica's microbatch, and of them those between blocks on one GPU: part by part.
  std::int64_t rows() const { return std::int64_t{micro_batch} * sequence; }
  std::int64_t own_rows() const { return rows() / tp; }
  std::int64_t replicas() const {
    return static_cast<std::int64_t>(stages.front().gpus.size()) / tp;
  }
};

struct DividedSize {
  const char* what;
  std::int64_t size;
};

/// What a tensor group divides evenly, of the model and of a microbatch with so many tokens.
inline std::array<DividedSize, 6> divided_sizes(const MoeModel& model, std::int64_t rows) {
  const AttentionShape& attention = *model.attention->shape;
  return {{{"tokens of a microbatch", rows},
           {"words", model.vocabulary},
           {"heads", attention.heads},
           {"heads of keys and values", attention.kv_heads},
           {"columns of dense FFNs", model.dense_ffn},
           {"columns of shared experts", std::int64_t{model.shared_experts} * model.shared_ffn}}};
}

}  // namespace moesim
