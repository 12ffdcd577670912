// SPDX-License-Identifier: Apache-2.0
// Compares what a rank holds after an iteration with one process that computes it by itself.
#pragma once

#include "realhw/core/real_step.h"
#include "realhw/core/reference.h"
#include "realhw/program/device.h"

namespace moesim {

/// After `runs` iterations, each from the weights of the one before. Compares, element by element,
/// of the last one
///  - outputs: what enters every block of every microbatch, and every token's loss;
///  - input gradients: the gradient by what enters every block;
///  - weight gradients: after the sum over microbatches and replicas (ZeRO: the rank's shard);
///  - weights: after the update, and after their gather if there is one.
/// An element is wrong when it is off by more than 1e-3 x the largest of its row, or, for
/// gradients of weights, of what the rank has of its tensor; a weight, by more than 1e-3 x the
/// largest change in that.
Comparison compare_iteration(const RealStep& step, const RankProgram& program, Device& device,
                             int runs);

}  // namespace moesim
