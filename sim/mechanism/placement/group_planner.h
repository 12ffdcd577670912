// SPDX-License-Identifier: Apache-2.0
// The base of placements that plan: when an EP group's slots are planned anew, from what has been
// seen, who pays for the change, and which copies last for a step.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/placement/asynchronous_moves.h"
#include "sim/mechanism/placement/planning_options.h"
#include "sim/mechanism/placement/window.h"
#include "sim/mechanism/placer.h"

namespace moesim {

/// One layer of one EP group before a step's gate, in the group's own ranks.
struct GroupLayer {
  int step = 0;  // its number
  int layer = 0;
  int group = 0;
  std::size_t cell = 0;  // of the layer and group, for what a planner keeps of each
  int steps = 0;         // of the layer, seen before
  bool begins = true;    // a step; else it is a further microbatch of the one before
  bool told = false;     // it has to plan now
  /// The GPU of rank 0: a number that tells groups apart, as seeds and round-robin starts do.
  GpuId first_gpu;
  const RankSpace& ranks;
  const Batch& batch;  // of the group's ranks
  const SlotTable& slots;
};

/// The same once the gate has spoken.
struct GroupStep : GroupLayer {
  IdRows ids;               // by the numbers of the batch's runs
  const LoadMatrix& loads;  // [rank][expert], empty for planners that say they do not look
};

/// What an EP group's ranks hold in one step, in its own ranks.
struct StepSlots {
  SlotTable table;
  std::vector<ExpertTransfer> gather = {};  // parameters, from their holders to copies
  std::vector<ExpertTransfer> reduce = {};  // gradients, back from the copies
  bool planned = false;                     // copies were chosen, from loads
  bool after_gate = false;                  // from those of this very step
};

/// Keeps the slots of every layer and EP group and asks, step by step:
/// 1. `due` and `plan`: the slots from now on, from what was seen of earlier steps;
/// 2. `in_step`: the slots of this step, if copies last no longer;
/// 3. `assign`: who uses which;
/// 4. `move` and `finish`: what a change of slots moves, and what the slots take and cost;
/// 5. `observe`: what there is to remember of the step. A window of loads is kept here.
/// The microbatches of an iteration are one step to it, and their loads one entry of every window,
/// unless it plans between them. If migration is asynchronous, planned slots are used once they
/// have arrived, and until then the layer is not planned anew.
class GroupPlanner : public Placer {
 public:
  LayerDecision decide(const LayerRoutingNow& now) final;
  std::vector<FirstPlan> first_plans() const override;
  void move_from(const Placer& before, int layer, LayerDecision& decision) const final;

 protected:
  /// What a window keeps of a step's loads.
  enum class Keeps { totals, by_rank };
  /// `initial`: the slots of every layer and EP group before the first plan.
  GroupPlanner(const PlacementContext& context, const PlanningOptions& options, SlotTable initial,
               Keeps keeps = Keeps::totals);
  /// The slots of one layer in every EP group before the first plan, if layers differ.
  void start_with(int layer, const SlotTable& initial);

  /// Asked once loads of a layer are known; by default the times of the options, or when it is
  /// told.
  virtual bool due(const GroupLayer& at) const { return at.told || options_.due(at.steps); }
  /// Whether it waits for loads before it plans.
  virtual bool needs_loads() const { return true; }
  /// The slots from now on; nothing: they stay, and nothing was planned.
  virtual std::optional<SlotTable> plan(const GroupLayer&) { return std::nullopt; }
  virtual StepSlots in_step(const GroupStep& at) { return {at.slots}; }
  /// In the slots of the step. By default a rank uses the lowest slot of every expert.
  virtual Assignment assign(const GroupStep& at, Placement slots);
  /// What a change of the slots of all GPUs moves. By default weights, and the state that goes with
  /// them, from the nearest holders, other EP groups included.
  virtual void move(LayerDecision& decision, const SlotTable& before, const SlotTable& after) const;
  /// The last word on a decision. `slots`: the ones that last, of all GPUs; `steps`: of this step,
  /// by EP group.
  virtual void finish(LayerDecision&, const SlotTable& /*slots*/,
                      std::span<const StepSlots> /*steps*/) const {}
  virtual void observe(const GroupStep&) {}
  /// Whether slots may change within an iteration, because no gradients are in them.
  virtual bool plans_between_microbatches() const { return false; }
  /// Once per step and layer, for what is seen of all EP groups together.
  virtual void observe_all(const LayerRoutingNow&, bool /*begins*/) {}

  const PlacementContext& context() const { return context_; }
  const PlanningOptions& options() const { return options_; }
  const EpGroups& groups() const { return context_.groups; }
  /// Ranks of an EP group.
  int ep() const { return context_.groups.size(); }
  std::size_t cells() const { return windows_.size(); }
  std::size_t cell(int layer, int group) const {
    return static_cast<std::size_t>(layer * groups().count() + group);
  }
  /// The loads of the newest steps that are known.
  const Window<LoadMatrix>& seen(std::size_t cell) const { return windows_[cell]; }
  /// The choices per expert over these steps.
  std::vector<std::int64_t> loads_seen(std::size_t cell) const;
  /// What moves of one expert: its weights, in training its optimizer's state if it goes along, as
  /// far as they are not compressed.
  Bytes payload() const;
  /// The slots of a layer, of all GPUs.
  const SlotTable& slots(int layer) const { return layers_[static_cast<std::size_t>(layer)].slots; }

 private:
  struct Layer {
    SlotTable slots;  // of all GPUs
    int steps = 0;    // seen so far
  };
  bool begins(const LayerRoutingNow& now) const {
    return now.begins_iteration || plans_between_microbatches();
  }
  GroupLayer at(const LayerRoutingNow& now, int group, const Batch& batch,
                const SlotTable& slots) const;
  /// The slots from now on of all EP groups, if any was planned.
  std::optional<SlotTable> planned_slots(const LayerRoutingNow& now);
  bool asynchronous() const { return options_.migration == Migration::asynchronous; }
  /// What moves in a step for slots to come, and the room that it takes.
  void move_behind(LayerDecision& decision, int layer, std::optional<SlotTable> wanted,
                   bool begins);
  void add_buffers(LayerDecision& decision, int layer) const;
  /// Of a step that has been decided on.
  void remember(const LayerRoutingNow& now, std::vector<LoadMatrix> loads_by_group);

  PlacementContext context_;
  PlanningOptions options_;
  Keeps keeps_;
  std::vector<Layer> layers_;
  std::vector<Window<LoadMatrix>> windows_;  // [cell]
  AsynchronousMoves moves_;
};

/// Appends slots of further GPUs.
void append(SlotTable& table, SlotTable more);

/// The moves that change the slots of all GPUs, each of `bytes`, from the nearest holders.
std::vector<ExpertTransfer> nearest_moves(const PlacementContext& context, const SlotTable& before,
                                          const SlotTable& after, Bytes bytes);

}  // namespace moesim
