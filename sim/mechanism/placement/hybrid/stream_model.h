// SPDX-License-Identifier: Apache-2.0
// The stream model of HybridEP (arXiv 2510.19470): how far to gather experts instead of sending
// tokens.
#pragma once

#include <optional>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// What training adds to a layer, which the printed Lat(S) leaves out as "a constant": that it
/// depends on S is why gathers can lose.
struct StreamBackward {
  Bytes gradients = {};    // of a GPU's experts, as they travel to their homes
  Seconds shared = {};     // the all-reduce of the shared expert, if any expert is gathered
  bool regathers = false;  // experts are gathered again instead of kept
};

/// One MoE layer as HybridEP sees it: every GPU has the same experts, tokens and links.
struct StreamLayer {
  Bytes tokens;            // D: token bytes of a GPU that enter one all-to-all
  Bytes experts;           // P_E: bytes of all experts of a GPU, uncompressed
  double compression = 1;  // ratio by which gathered experts are smaller
  Seconds pre_expert;      // PE: the work that a gather of experts can hide behind
  Seconds compute = {};    // of a GPU's experts, forward; backward it is twice as long
  int layers = 1;          // equal ones, whose gathers queue at the start of the pass
  Seconds encode = {};     // of a GPU's own experts
  Seconds decode = {};     // of those of one other GPU
  std::optional<StreamBackward> backward = {};

  /// Bytes of a GPU's experts on the wire.
  double gathered() const { return static_cast<double>(experts.value) / compression; }
};

/// One level of the cluster, coarsest first: each worker of the level above has `workers` of these.
struct StreamLevel {
  int workers = 1;  // SF
  BytesPerSecond bandwidth;
  Seconds latency = {};  // of an exchange, however few its bytes
};

/// What domains of S workers at each level cost a GPU.
struct DomainCost {
  std::vector<int> domains;        // S per level
  std::vector<double> all_gather;  // bytes received per level and forward pass
  std::vector<double> all_to_all;  // bytes sent per level and direction
  Seconds latency;                 // the objective, levels in series
  double gathered_memory = 0;      // uncompressed bytes of other GPUs' experts on a GPU
};

/// The cost of one choice; each S must divide its level's workers (Error). For one layer without
/// compute, forward, it is max(PE, gathers) + 2 all-to-alls (Eq. 8), with gathers from encoding to
/// decoding. With L layers each takes the longest of
///   PE + compute + 2 all-to-alls                 what tokens wait for,
///   gathers + (compute + 2 all-to-alls) / L      parameters, and the last layer after them,
///   gathers + 2 all-to-alls of a level           what its links carry.
/// Training adds the same with 2 PE, 2 compute and gradients with the shared expert in place of
/// gathers. All but Eq. 8 is ours, and how several levels go together: level 0 gathers first, level
/// l then forwards what the GPU holds, (S^l - 1) S^0 ... S^(l-1) P_E bytes; tokens take one hop per
/// level, D (1 - S^l / SF^l) bytes.
DomainCost domain_cost(const StreamLayer& layer, const std::vector<StreamLevel>& levels,
                       const std::vector<int>& domains);

/// The cost of every combination of divisors, in ascending order of (S^0, S^1 ...).
std::vector<DomainCost> domain_costs(const StreamLayer& layer,
                                     const std::vector<StreamLevel>& levels);

/// The combination of the smallest latency; on ties the lowest (S^0, S^1 ...). Never one that
/// costs more than domains of one worker, which are among them.
DomainCost best_domains(const StreamLayer& layer, const std::vector<StreamLevel>& levels);

}  // namespace moesim
