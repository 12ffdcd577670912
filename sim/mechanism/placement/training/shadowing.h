// SPDX-License-Identifier: Apache-2.0
// FasterMoE's dynamic shadowing (He et al., PPoPP 2022): loaded experts are copied to every GPU for
// one iteration, and its performance model.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/owners.h"

namespace moesim {

/// What the model knows of a layer of two-matrix experts. The defaults are those of laekov/fastmoe.
struct ShadowModel {
  double hidden = 2048;                // H
  double alpha = 2;                    // expert width / H
  double element_bytes = 4;            // 2 in thu-pacman/SmartMoE-AE
  BytesPerSecond bandwidth{50e9 / 8};  // of a GPU's link, W = bandwidth / element_bytes
  FlopsPerSecond throughput{11.5e12};  // P

  Seconds compute() const;     // 4 alpha H^2 / P: one forward of one choice
  Seconds feature() const;     // H / W: one choice, one way
  Seconds parameters() const;  // 2 alpha H^2 / W: one expert, one way
};

/// The paper's time of a layer without shadows, max_w over GPU loads B_w of
/// 12 B_w alpha H^2 / P + 4 B_w H / W.
Seconds unshadowed_time(const ShadowModel& model, std::int64_t largest_load);
/// The paper's time with `shadows` experts shadowed, 12 B'_w alpha H^2 / P + 4 r alpha H^2 / W: it
/// leaves out the token traffic that remains.
Seconds shadowed_time(const ShadowModel& model, std::int64_t largest_load, int shadows);

/// How shadows are chosen.
enum class ShadowRule {
  /// The paper's algorithm. Its formulation has one expert per GPU; with several, experts are
  /// walked by falling load (unstated).
  paper,
  /// laekov/fastmoe, `global_policy`, over the totals per expert that it means to take (it sums
  /// over the wrong axis): a prefix of the experts by load, while each next one lowers the time.
  fastmoe,
  /// thu-pacman/SmartMoE-AE: without the owner's own choices on the links, with its choices for
  /// shadowed experts on its GPU, four transfers per shadow each way; the best prefix before the
  /// time exceeds that without shadows. Its element size is 2 bytes.
  smart_moe_ae
};

/// The experts to shadow, in the order chosen. Ties: the lowest expert. The last expert is never
/// shadowed by the rules of code. Throws Error unless the table has a slot per expert and a GPU per
/// source.
std::vector<ExpertId> choose_shadows(ShadowRule rule, const ShadowModel& model,
                                     const LoadMatrix& loads, const SlotTable& table);

/// B'_w: load of every GPU when all GPUs keep their own choices for shadowed experts.
std::vector<std::int64_t> shadowed_loads(const LoadMatrix& loads, const SlotTable& table,
                                         std::span<const ExpertId> shadows);

/// The slots of one iteration and what they move.
struct Shadowing {
  SlotTable table;                        // each shadow in one more slot of every other GPU
  std::vector<ExpertTransfer> broadcast;  // parameters, before the forward; one entry a receiver
  std::vector<ExpertTransfer> reduce;     // gradients to the owner, in the backward
};

/// Shadows in place. `table` as in choose_shadows.
Shadowing shadow(const SlotTable& table, std::span<const ExpertId> shadows, Bytes parameters,
                 Bytes gradients);

}  // namespace moesim
