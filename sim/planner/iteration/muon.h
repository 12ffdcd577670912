// SPDX-License-Identifier: Apache-2.0
// Muon (https://kellerjordan.github.io/posts/muon): updates of matrices by their orthogonalized
// momentum. Whole matrices are dealt out to replicas, as Megatron-Core's layer-wise optimizer does
// (megatron/core/optimizer/layer_wise_optimizer.py); a tensor-parallel GPU takes its part of a
// matrix for a whole one (`--muon-tp-mode blockwise`).
#pragma once

#include <array>
#include <map>
#include <vector>

#include "sim/model/weight_matrices.h"
#include "sim/planner/iteration/stage_space.h"
#include "sim/planner/layer/layer_step.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

/// How many matrices there are of each shape.
using MatrixCounts = std::map<WeightMatrix, std::int64_t>;
std::int64_t parameters_of(const MatrixCounts& matrices);

/// What each replica updates: the largest matrices first, each for the replica that has the fewest
/// parameters so far, the first of them if several do.
std::vector<MatrixCounts> deal_out(const MatrixCounts& matrices, int replicas);

/// Steps of Newton-Schulz per update (published: `--muon-num-ns-steps` of Megatron-Core).
inline constexpr int newton_schulz_steps = 5;
/// The products of all steps of `count` matrices X of m <= n rows and columns, in bf16:
/// A = X X^T, A A, and (b A + c A A) X, together steps x count x (4 m^2 n + 2 m^3) flop. Products
/// of one kind that follow each other are one of as many rows.
std::array<GroupedGemm, 3> newton_schulz(const WeightMatrix& matrix, std::int64_t count);

/// What the GPUs of a stage hold of the model.
struct HeldMatrices {
  std::vector<StagePart> parts;       // alike on all of them
  std::int64_t dense = 0;             // parameters of these parts
  std::vector<std::int64_t> experts;  // [GPU] whole routed ones with their state

  /// Adds a layer's routed experts, without copies that have no state. Throws Error if GPUs hold
  /// parts of them.
  void add_experts(const LayerWork& work);
};
/// What Adam keeps per parameter in addition to Muon's state, in fp32.
inline constexpr std::int64_t second_moment_bytes = 4;
/// What a GPU updates: matrices by Muon, the rest by Adam (embedding and head, vectors, routers).
struct Updated {
  MatrixCounts matrices;
  std::int64_t others = 0;  // parameters
};
/// [GPU of the stage], which is number `copy` of `copies` stages that hold the same.
std::vector<Updated> updated_by_muon(const StageSpace& stage, const HeldMatrices& held, int copy,
                                     int copies);

}  // namespace moesim
