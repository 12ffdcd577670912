// SPDX-License-Identifier: Apache-2.0
// Experts with one home in every EP group, and copies of some of them for one step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/group_planner.h"

namespace moesim {

/// How one expert's parameters reach many GPUs; gradients come back the same way.
enum class Broadcast {
  direct,   // its home sends to every GPU
  by_node,  // once to each other node, there from the GPU that received; one phase after the other
  chain     // every GPU sends on to the next: the bytes cross each link once, pipelined
};

/// Names as they appear in YAML, in the order of Broadcast.
inline const std::vector<std::string> broadcast_names = {"direct", "by-node", "chain"};

/// The exchanges, one or two, that bring parameters from homes to copies; `copies` lists one
/// transfer per copy, all from the expert's home. By node, of a node's n GPUs that get expert e the
/// (e mod n)-th receives it. Empty when nothing leaves its GPU.
std::vector<ParamExchange> broadcast(const std::string& name,
                                     std::span<const ExpertTransfer> copies, const EpGroups& groups,
                                     Broadcast how);
/// The same in reverse, summing on the way: `copies` lists one transfer per copy, all to the home.
std::vector<ParamExchange> reduction(const std::string& name,
                                     std::span<const ExpertTransfer> copies, const EpGroups& groups,
                                     Broadcast how);

/// What a layer moves for its copies.
struct CopyOptions {
  Broadcast how = Broadcast::direct;
  bool release = false;  // copies are dropped after the forward and fetched again for the backward
};

/// Completes a decision of experts with homes in every EP group and copies of one step, homes first
/// on every rank: parameters gathered, gradients reduced, and the memory of homes and copies.
void move_copies(LayerDecision& decision, const PlacementContext& context, const SlotTable& homes,
                 std::span<const StepSlots> steps, const CopyOptions& options);

/// In one EP group: a rank uses its own copy of an expert, else the home.
Assignment own_or_home(const SlotTable& homes, Placement slots);

/// The slots of one EP group where experts are in id order over its ranks.
SlotTable contiguous_homes(const PlacementContext& context);

/// Parameters and gradients of one expert.
Bytes weight_bytes(const PlacementContext& context);
Bytes gradient_bytes(const PlacementContext& context);

/// Homes are contiguous at first. A rank uses its own copy of an expert, else the home. Parameters
/// are gathered and gradients reduced as the options say; homes keep memory for good, copies while
/// the layer computes.
class Copier : public GroupPlanner {
 protected:
  Copier(const PlacementContext& context, const CopyOptions& copies,
         const PlanningOptions& options = {}, Keeps keeps = Keeps::totals);
  StepSlots in_step(const GroupStep& at) override = 0;
  Assignment assign(const GroupStep& at, Placement slots) override;
  void finish(LayerDecision& decision, const SlotTable& homes,
              std::span<const StepSlots> steps) const final;

 private:
  CopyOptions copies_;
};

}  // namespace moesim
