// SPDX-License-Identifier: Apache-2.0
// LPLB (github.com/deepseek-ai/LPLB): each replicated expert has one replica on a fixed other rank;
// a linear program, solved for every batch, says how much of its load stays on the original.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/plan/assignment.h"

namespace moesim::lplb {

/// wiring[rank][d]: the rank of the same group whose class-d experts this rank replicates. Every
/// column is a permutation, so every expert has at most one replica.
using Wiring = std::vector<std::vector<int>>;

/// 8 ranks. Class 0: two 4-cycles. Class 1: rank r to r + 4, and from there back crosswise.
Wiring cube();
/// 16 ranks. Class 0: four 4-cycles. Class 1: equal places of these, in 4-cycles.
Wiring hypercube();
/// rows x columns ranks. Class 0: each rank replicates the next row's; class 1: next column's.
Wiring torus(int rows, int columns);
/// 1 class: each rank replicates the next one's experts.
Wiring ring(int ranks);

/// The linear program of one group, with loads in any unit.
struct Problem {
  Wiring wiring;
  std::vector<std::vector<double>> movable;  // [rank][d]: load of the rank's class-d experts
  std::vector<double> fixed;                 // [rank]: load that has no replica
};

/// How much of each class stays on its rank.
struct Solution {
  std::vector<std::vector<double>> stays;  // [rank][d], in [0, 1]; all 0.5 if not accepted
  double busiest = 0;                      // load of the busiest rank as the solver left it
  double max_step = 0;                     // the largest scaled step of the last iteration
  bool accepted = false;
};

/// Minimises the busiest rank's load by five affine-scaling steps. `scale` is the load that counts
/// as 1 (upstream: the largest single expert's). Upstream accepts by the step of one thread, we by
/// the largest of all. Without load nothing is accepted. Throws Error on bad wiring.
Solution solve(const Problem& problem, double scale);

/// Which experts each rank owns, and where their replicas are.
struct Layout {
  Wiring wiring;
  int per_class = 1;  // experts that share one variable of the linear program
  SlotTable own;      // [rank]: heaviest first; the first per_class * classes are replicated

  /// The slots of each rank: own experts, then replicas.
  SlotTable table() const;
};

/// Spreads experts by EPLB without replicas over the GPUs (groups of wiring.size() ranks) and sorts
/// each rank's experts by load. Throws Error unless wiring.size() divides the GPUs, GPUs the
/// experts, and a rank has per_class x classes experts or more.
Layout place(std::span<const double> loads, const Wiring& wiring, int per_class, int nodes,
             int gpus);

/// Solves the programs of all groups for the loads of a batch.
std::vector<Solution> solve(const Layout& layout, std::span<const double> loads);

/// Whether the i-th of a rank's `total` choices of an expert stays with the original.
constexpr bool keeps_original(std::int64_t i, std::int64_t total, double stays) {
  return static_cast<double>((499 * i + 41) % total) < stays * static_cast<double>(total);
}

/// Shares [rank][expert] for Placement(experts, layout.table()).
std::vector<std::vector<Shares>> shares(const Layout& layout, const std::vector<Solution>& groups,
                                        const LoadMatrix& loads);

}  // namespace moesim::lplb
