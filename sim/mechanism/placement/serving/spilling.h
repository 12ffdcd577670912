// SPDX-License-Identifier: Apache-2.0
// The base of placements that decide for every layer which token-slots other GPUs compute: these
// get the experts' weights for the step, and send gradients back.
#pragma once

#include <vector>

#include "sim/base/yaml.h"
#include "sim/mechanism/placement/serving/llep.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {

struct SpillOptions {
  bool keeps = false;        // received weights until the backward pass; else they are sent again
  Seconds planning;          // of every layer; its dispatch waits if loads are those of the gate
  bool before_gate = false;  // loads are predicted
};

/// Ranks own experts in id order. Every expert that a plan sends goes once to each receiver.
class Spilling : public GroupPlanner {
 public:
  /// Throws as check_native.
  Spilling(const PlacementContext& context, const SpillOptions& options);
  bool reacts() const override { return true; }

 protected:
  /// What becomes of the loads of one step, in the ranks of its EP group.
  virtual llep::Plan plan_of(const GroupStep& at) const = 0;
  Assignment assign(const GroupStep& at, Placement slots) override;
  /// The plan of the layer that is being decided.
  const llep::Plan& plan_now(const GroupStep& at) const {
    return plans_[static_cast<std::size_t>(at.group)];
  }

 private:
  StepSlots in_step(const GroupStep& at) override;
  void finish(LayerDecision& decision, const SlotTable& owned,
              std::span<const StepSlots> steps) const override;
  std::vector<ExpertMemory> memory_of(const Placement& placement) const;

  SpillOptions options_;
  std::vector<llep::Plan> plans_;  // [EP group] of the layer that is being decided
};

/// received: keep (default) or regather; planning_time (0 us).
SpillOptions read_spill_options(const YamlMap& params);
/// Everyone keeps its experts. Throws Error unless gpus divides the experts.
llep::Plan native_plan(std::size_t experts, int gpus);
/// As Unsuitable, for a mechanism that is made.
void check_native(const PlacementContext& context);

}  // namespace moesim
