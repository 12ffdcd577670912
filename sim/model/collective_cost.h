// SPDX-License-Identifier: Apache-2.0
// The time of hierarchical collectives as alpha-beta lines: HierMoE (arXiv 2508.09591), Fig. 9; and
// the time of a d-dimensional AlltoAll and the best d, which need these lines. They come from a
// file or are fitted to a network. docs/hiermoe.md explains them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/base/byte_matrix.h"

namespace moesim {

/// Nested groups of equal size over `gpus` consecutive ranks. Rank s has level-i group
/// s div group_size(i) and level-i local index s mod group_size(i).
struct Nesting {
  int gpus = 1;                   // G
  std::vector<int> groups = {1};  // U: groups of level i; U[0] = 1, each divides the next and G

  int depth() const { return static_cast<int>(groups.size()); }  // D
  /// U[level]; level D stands for the GPUs themselves.
  int groups_at(int level) const {
    return level == depth() ? gpus : groups[static_cast<std::size_t>(level)];
  }
  int group_size(int level) const { return gpus / groups_at(level); }
  /// Throws Error unless the groups nest and each level cuts finer than the one above.
  void check() const;
  bool operator==(const Nesting&) const = default;
};

/// Time of one collective = alpha + beta n, with n the whole send buffer of one rank, its own part
/// included, as nccl-tests counts.
struct AlphaBeta {
  Seconds alpha;
  double seconds_per_byte = 0;

  /// `bytes` may be a mean over ranks and so a fraction.
  Seconds time(double bytes) const { return Seconds(alpha.value + seconds_per_byte * bytes); }
  Seconds time(Bytes bytes) const { return time(static_cast<double>(bytes.value)); }
};

/// The all-to-alls that a d-dimensional AlltoAll is made of (paper, Fig. 4). Entry i-1 belongs to
/// level i:
/// - Inter-level-i joins the ranks of one level-(i-1) group that have the same level-i local index.
/// - Intra-level-i joins the ranks of one level-i group.
/// All communicators of a stage run at once, so they share links.
struct CollectiveCosts {
  Nesting nesting;
  AlphaBeta flat;                // all G ranks
  std::vector<AlphaBeta> inter;  // U[i] / U[i-1] ranks each
  std::vector<AlphaBeta> intra;  // G / U[i] ranks each
};

/// One matrix per communicator of a collective.
using CommunicatorTraffic = std::vector<ByteMatrix>;

/// Costs fitted to a network. time(traffic) says how long the slowest communicator of a collective
/// takes when all start together. Every collective runs with send buffers of `buffer` bytes and of
/// half as many, on `copies` groups of G consecutive ranks at once; the line through both times
/// gives alpha and beta. `buffer` should be near the size in question: small exchanges show
/// latencies that large ones hide.
CollectiveCosts fit_collective_costs(const Nesting& nesting, int copies,
                                     const std::function<Seconds(const CommunicatorTraffic&)>& time,
                                     Bytes buffer = Bytes(32 << 20));

/// Send buffer of one rank in token rows, for every stage that any d may use; entry i-1 belongs to
/// level i. In the paper's symbols: n / (M v). Fractions come from means.
struct StageRows {
  double flat = 0;
  std::vector<double> inter;
  std::vector<double> intra;
};

/// t_d for d = 1..D, at [d-1]: flat for d = 1, else Inter-level-1 .. Inter-level-(d-1) and
/// Intra-level-(d-1), one after the other. Throws std::logic_error when the levels differ.
std::vector<Seconds> depth_times(const CollectiveCosts& costs, const StageRows& rows, Bytes row);

/// d* by the published rule: 1 if t_1 is less than every other t_d, else the fastest d > 1, of
/// equally fast ones the smallest.
int best_depth(std::span<const Seconds> times);

}  // namespace moesim
