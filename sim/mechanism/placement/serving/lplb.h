// SPDX-License-Identifier: Apache-2.0
// LPLB (github.com/deepseek-ai/LPLB): each replicated expert has one replica on a fixed other rank;
// a linear program, solved anew for every batch, says how much of it stays on the original.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/plan/assignment.h"

namespace moesim::lplb {

/// wiring[rank][d]: the rank of a group whose class-d experts this rank replicates. Every column is
/// a permutation, so that every expert has one replica at most.
using Wiring = std::vector<std::vector<int>>;

/// 8 ranks, 2 classes: two 4-cycles, joined straight one way and crosswise the other.
Wiring cube();
/// 16 ranks, 2 classes: the 4-cube as 4-cycles of 4-cycles.
Wiring hypercube();
/// rows x columns ranks, 2 classes: the next row, the next column.
Wiring torus(int rows, int columns);
/// 1 class: the next rank.
Wiring ring(int ranks);

/// The linear program of one group, any unit of load.
struct Problem {
  Wiring wiring;
  std::vector<std::vector<double>> movable;  // [rank][d]: load of the rank's class-d experts
  std::vector<double> fixed;                 // [rank]: load that has no replica
};

/// How much of each class stays on its rank.
struct Solution {
  std::vector<std::vector<double>> stays;  // [rank][d], in [0, 1]; 0.5 each unless accepted
  double busiest = 0;                      // load of the busiest rank as the solver left it
  double max_step = 0;                     // the largest scaled step of the last iteration
  bool accepted = false;
};

/// Five affine-scaling steps of: minimise the busiest rank's load. `scale` is the load that counts
/// as 1 (upstream: the largest single expert's). Upstream accepts by the last step that a thread
/// saw; ours by the largest of all. Without load nothing is accepted. Throws Error on bad wiring.
Solution solve(const Problem& problem, double scale);

/// Experts on ranks and which of them have replicas where.
struct Layout {
  Wiring wiring;
  int per_class = 1;  // experts that share one variable of the linear program
  SlotTable own;      // [rank]: heaviest first; the first per_class * classes are replicated

  /// Own experts, then replicas.
  SlotTable table() const;
};

/// Spreads experts by EPLB without replicas over the GPUs (groups of wiring.size() ranks) and sorts
/// each rank's by load. Throws Error unless wiring.size() divides the GPUs, GPUs the experts, and a
/// rank has per_class x classes experts or more.
Layout place(std::span<const double> loads, const Wiring& wiring, int per_class, int nodes,
             int gpus);

/// The solutions of all groups for the loads of a batch.
std::vector<Solution> solve(const Layout& layout, std::span<const double> loads);

/// Whether the i-th of a rank's `total` choices of an expert stays with the original.
constexpr bool keeps_original(std::int64_t i, std::int64_t total, double stays) {
  return static_cast<double>((499 * i + 41) % total) < stays * static_cast<double>(total);
}

/// Shares [rank][expert] for Placement(experts, layout.table()).
std::vector<std::vector<Shares>> shares(const Layout& layout, const std::vector<Solution>& groups,
                                        const LoadMatrix& loads);

}  // namespace moesim::lplb
