// SPDX-License-Identifier: Apache-2.0
// Planners that decide the slots of coming steps from the loads of earlier ones.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "sim/policy/placer.h"

namespace moesim {

/// When a planner decides, what it sees, and what its decisions cost; see read_lagged_options.
struct LaggedOptions {
  int interval = 1;             // steps between decisions
  int first = 1;                // steps before the first decision, at least 1
  int window = 1;               // newest steps whose loads are summed
  bool moves_optimizer = true;  // migration carries optimizer state, not the weights alone
  bool migrate_blocks = true;   // the step waits for the migration
  Seconds planning;             // of one decision of one layer
  bool planning_blocks = false;
};

/// Reads interval, first, window, payload (state or weights), migration (blocks or overlapped),
/// planning_time and planning (hidden or blocks), with the given defaults.
LaggedOptions read_lagged_options(const YamlMap& params, LaggedOptions defaults = {});
/// The same without first and window.
LaggedOptions read_move_options(const YamlMap& params, LaggedOptions defaults = {});
/// The same without interval too.
LaggedOptions read_transfer_options(const YamlMap& params, LaggedOptions defaults);

/// Whether to decide, so many steps having been seen.
bool due(const LaggedOptions& options, int steps);

/// Keeps one slot table per layer, and changes it as replan says. Loads of a step are seen after
/// it: what is decided for step s depends on steps before s alone.
class Lagged : public Placer {
 public:
  Lagged(const PlacementContext& context, const LaggedOptions& options, SlotTable initial);
  LayerDecision decide(const LayerRoutingNow& now) final;
  std::vector<FirstPlan> first_plans() const final { return {{.after = options_.first}}; }

 protected:
  /// The slots of one run of `ep` ranks, from the loads of its ranks summed over the window
  /// [ep x experts] and its current slots; `run` counts the runs.
  virtual SlotTable replan(int layer, int run, const LoadMatrix& window,
                           const SlotTable& current) = 0;
  /// Who uses which replica in this step.
  virtual Assignment assign(Placement placement, const LayerRoutingNow& now) = 0;
  /// Called after every step with its routing, for planners that look at more than loads.
  virtual void observe(const LayerRoutingNow&) {}
  /// What a change of slots moves: weights, and the state that goes with them, from the nearest
  /// holders.
  virtual ParamExchange migration(const SlotTable& before, const SlotTable& after) const;
  /// What moves of one expert.
  Bytes payload() const;
  const PlacementContext& context() const { return context_; }

 private:
  struct Layer {
    SlotTable slots;
    std::deque<LoadMatrix> history;
    int steps = 0;  // seen so far
  };
  SlotTable next_slots(int index, const Layer& layer);

  PlacementContext context_;
  LaggedOptions options_;
  std::vector<Layer> layers_;
};

/// The rows of ranks first..first + count - 1.
LoadMatrix rows_of(const LoadMatrix& loads, int first, int count);

}  // namespace moesim
