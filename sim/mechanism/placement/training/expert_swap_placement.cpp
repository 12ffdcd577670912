// SPDX-License-Identifier: Apache-2.0
// HierD-ES: two experts of a layer exchange their slots so that the hierarchical all-to-all gets
// faster. HierMoE, arXiv 2508.09591; docs/placement.md lists what the paper leaves open.
#include <fmt/format.h>

#include <array>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/depth_model.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/expert_swap.h"
#include "sim/mechanism/placement/training/permuting.h"

namespace moesim {
namespace {

struct SwapOptions {
  PlanningOptions when;
  int pairs = 1;
  Maximum maximum;
  CountReading reading = CountReading::mean;
  int depth = 0;  // 0: d* of the current placement
};

class ExpertSwapper final : public Permuting {
 public:
  ExpertSwapper(const PlacementContext& context, const SwapOptions& options)
      : Permuting(context, options.when),
        options_(options),
        depth_model_(context.groups, nesting_of(context.groups, "'placement' cannot swap experts"),
                     Copies::per_group, options.reading, context.model.row_bytes()),
        next_(static_cast<std::size_t>(context.layers)) {
    const int levels = depth_model_.nesting().depth();
    if (options.depth > levels) {
      throw Unsuitable(fmt::format("'placement.depth' is {}, but {} on '{}' nest{} only {} deep",
                                   options.depth, counted(ep(), "rank"), groups().cluster(),
                                   ep() == 1 ? "s" : "", levels));
    }
  }

 private:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return groups().part(next_[static_cast<std::size_t>(at.layer)].table, at.group);
  }

  /// The step's routing decides, of several microbatches that of the last; the swap waits for the
  /// next step. The depth is that of the slowest EP group.
  void observe_all(const LayerRoutingNow& now, bool begins) override {
    Next& next = next_[static_cast<std::size_t>(now.layer)];
    next.table = slots(now.layer);
    if (begins) ++next.steps;
    if (next.steps % options_.when.interval == 0) next.table = after_swaps(next.table, now);
  }

  SlotTable after_swaps(const SlotTable& table, const LayerRoutingNow& now) const {
    const Assignment assignment(Placement(context().experts, table), ep());
    const LayerTokens tokens{now.batch, now.ids, assignment};
    const SwapObjective objective{depth_model_.costs(tokens),
                                  options_.depth > 0 ? options_.depth : depth_model_.best(tokens),
                                  context().model.row_bytes(), options_.reading, options_.maximum};
    SlotTable result;
    for (int g = 0; g < groups().count(); ++g) {
      const Batch batch = groups().part(now.batch, g);
      SlotTable slots = groups().part(table, g);
      for (int i = 0; i < options_.pairs; ++i) {
        const auto swap = find_swap(objective, slots, {now.ids, batch.ranks});
        if (!swap) break;
        slots = swapped(std::move(slots), swap->first, swap->second);
      }
      append(result, std::move(slots));
    }
    return result;
  }

  struct Next {
    SlotTable table;  // of all GPUs
    int steps = 0;
  };
  SwapOptions options_;
  DepthModel depth_model_;
  std::vector<Next> next_;  // [layer]
};

}  // namespace

// pairs (1): swaps per layer and decision, each found after the one before; interval (1): steps
// between decisions; payload (weights): or state, with the optimizer's; maximum (smooth): of
// the groups' counts, smooth, hard or log-sum-exp; gamma (10): of the last two; counts (mean): how
// uneven counts are read, mean or max; depth (auto): of the all-to-all whose time is lowered, d* of
// the current placement or a number; migration (blocks): the next step waits for the experts, or
// overlapped; planning_time (0 s) of one decision, planning (hidden or blocks).
PlacementMaker read_expert_swap(const YamlMap& params) {
  constexpr Range count{1, 1 << 20};
  SwapOptions o;
  o.when = read_move_options(params, weights_only());
  o.when.first = o.when.interval;
  o.pairs = static_cast<int>(params.integer("pairs", count, 1));
  o.maximum.kind = std::array{MaximumKind::smooth, MaximumKind::hard,
                              MaximumKind::log_sum_exp}[static_cast<std::size_t>(
      params.choice("maximum", {"smooth", "hard", "log-sum-exp"}, 0))];
  if (const auto gamma = params.find("gamma")) {
    o.maximum.gamma = gamma->number({1, 1000});
    if (o.maximum.kind == MaximumKind::hard) {
      gamma->error("'placement.gamma' has no effect: the maximum is hard",
                   "say maximum: smooth, or leave 'gamma' out");
    }
  }
  o.reading = static_cast<CountReading>(params.choice("counts", {"mean", "max"}, 0));
  const auto depth = params.find("depth");
  const bool automatic = !depth || (depth->is_scalar() && depth->string() == "auto");
  if (!automatic) o.depth = static_cast<int>(depth->integer({1, 16}));
  return
      [o](const PlacementContext& context) { return std::make_unique<ExpertSwapper>(context, o); };
}

}  // namespace moesim
