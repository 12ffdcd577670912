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

/// Matrices of these parts that Muon updates on one GPU of the stage, besides routed experts.
/// Embedding and head, vectors and routers are updated by Adam.
MatrixCounts dense_matrices(const StageSpace& stage, const std::vector<StagePart>& parts);
/// [GPU of the stage] whole routed experts of this layer. Throws Error if GPUs hold parts of them.
std::vector<std::int64_t> whole_experts_of(const LayerWork& work);
/// Matrices of so many experts of the stage.
MatrixCounts matrices_of_experts(const StageSpace& stage, std::int64_t experts);
/// [GPU] its place in its group.
std::vector<std::size_t> places_in(const GpuGroups& groups);

}  // namespace moesim
