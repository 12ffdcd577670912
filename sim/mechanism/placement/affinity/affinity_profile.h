// SPDX-License-Identifier: Apache-2.0
// Planners that decide from which experts tokens chose together, or one layer after the other.
#pragma once

#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/mechanism/placement/group_planner.h"

namespace moesim {

/// The choices of a batch's tokens: [token * top_k + k], -1 if dropped.
std::vector<int> batch_choices(const Batch& batch, IdRows ids);

/// Tokens that chose both experts of a pair: symmetric, the diagonal zero. Dropped choices do not
/// count.
PairMatrix co_choices_of(const std::vector<int>& choices, int top_k, int experts);
/// Choices (e of a layer, f of the next) of the same tokens, K x K each, without dropped ones.
PairMatrix transitions_between(const std::vector<int>& layer, const std::vector<int>& next,
                               int top_k, int experts);

/// When a planner decides from its profile, and what the first decision costs.
struct ProfileOptions {
  PlanningOptions when = {};
  bool offline = false;  // its first slots are loaded with the model instead of moved
};

/// Reads `profile`, the steps before the first decision, whose routing it sees (default 4);
/// `profiling`, offline (default) or online; and the options of planners that lag, which by default
/// decide once.
ProfileOptions read_profile_options(const YamlMap& params);

/// Remembers pairs of the newest steps, over the ranks of all EP groups: all get one placement.
class ProfiledPlanner : public GroupPlanner {
 public:
  enum class Pairs { co_choices, transitions };

 protected:
  /// Starts contiguous.
  ProfiledPlanner(const PlacementContext& context, const ProfileOptions& options, Pairs pairs);
  /// The pairs of a layer (transitions: from it to the next one), summed over the window.
  PairMatrix pairs_of(int layer) const;
  /// Those of the newest step.
  const PairMatrix& newest_pairs(int layer) const {
    return pairs_[static_cast<std::size_t>(layer)].newest();
  }
  /// [layer - 1]
  std::vector<PairMatrix> all_pairs() const;
  /// [layer][expert]: choices, summed over the window.
  std::vector<std::vector<std::int64_t>> all_loads() const;
  /// The slots of a layer in any EP group.
  virtual SlotTable place(int layer) = 0;
  std::optional<SlotTable> plan(const GroupLayer& at) final;
  void move(LayerDecision& decision, const SlotTable& before, const SlotTable& after) const final;
  void observe_all(const LayerRoutingNow& now, bool begins) override;

 private:
  Pairs kind_;
  bool offline_;
  std::vector<Window<PairMatrix>> pairs_;  // [layer]
  std::vector<Window<LoadMatrix>> loads_;  // [layer]
  SlotTable planned_;                      // of the layer that is being decided
  std::vector<int> before_;                // choices of the layer before, in the same step
};

/// Decides all layers at once, at the first layer of a step.
class AllLayersPlanner : public ProfiledPlanner {
 protected:
  AllLayersPlanner(const PlacementContext& context, const ProfileOptions& options)
      : ProfiledPlanner(context, options, Pairs::transitions) {}
  /// The slots of any EP group: [layer].
  virtual std::vector<SlotTable> place_all() = 0;
  SlotTable place(int layer) final;

 private:
  std::vector<SlotTable> planned_;
};

/// Throws Unsuitable unless the ranks of an EP group hold equally many experts.
void check_equal_slots(const PlacementContext& context);

}  // namespace moesim
