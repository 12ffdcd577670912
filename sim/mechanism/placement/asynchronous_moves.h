// SPDX-License-Identifier: Apache-2.0
// Experts that change their places while steps go on, as in vLLM (eplb/async_worker.py): layer
// after layer, each through a buffer, and a layer's new slots are used once all of it is there.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/plan/placement.h"

namespace moesim {

class AsynchronousMoves {
 public:
  /// At most `layers_per_step` layers move at once. In a step a GPU receives at most
  /// `experts_per_step` experts of each of them; 0: all.
  AsynchronousMoves(int layers, int layers_per_step, int experts_per_step);

  /// Whether slots have been planned for the layer that are not used yet.
  bool pending(int layer) const { return at(layer).has_value(); }
  /// Slots to come, and what moves for them. The layer must have none pending.
  void plan(int layer, SlotTable slots, std::vector<ExpertTransfer> moves);
  /// At the start of a step: the slots from now on, if all that they need came in earlier steps.
  std::optional<SlotTable> arrived(int layer);
  /// What moves in this step, in the order given; once per layer and step.
  std::vector<ExpertTransfer> next(int layer);
  /// [gpu] what it has received for the layer, this step included, and does not use yet.
  std::vector<Bytes> buffered(int layer, int gpus) const;

 private:
  struct Coming {
    SlotTable slots;
    std::vector<ExpertTransfer> moves;
    std::vector<ExpertTransfer> left;
    bool begun = false;
  };
  const std::optional<Coming>& at(int layer) const {
    return coming_[static_cast<std::size_t>(layer)];
  }

  int layers_per_step_;
  int experts_per_step_;
  int moving_ = 0;                             // layers that have begun
  std::vector<std::optional<Coming>> coming_;  // [layer]
};

}  // namespace moesim
