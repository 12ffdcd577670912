// SPDX-License-Identifier: Apache-2.0
// Dynamic expert grouping after "Breaking the MoE LLM Trilemma" (arXiv 2510.02345): experts with
// similar co-choices form groups, groups share a GPU or node. Experts of a group are the group's
// mean and low-rank differences, so that they take and move fewer bytes; the products that undo it
// cost nothing here. All of it is our interpretation.
#include <algorithm>
#include <cmath>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"
#include "sim/mechanism/placement/affinity/grouping.h"

namespace moesim {
namespace {

struct GroupingOptions {
  bool on_nodes = false;    // a group is on a node, else on a GPU
  int groups_per_part = 1;  // groups of a node or GPU
  double rate = 0.05;       // of the moving average of similarity
  double floor = 0.1;       // similarity below it counts as none
  double compression = 1;   // of an expert's weights and state
};

class DynamicGrouping final : public ProfiledPlanner {
 public:
  DynamicGrouping(const PlacementContext& context, const PlanningOptions& options,
                  GroupingOptions grouping)
      : ProfiledPlanner(context, {options}, Pairs::co_choices),
        grouping_(grouping),
        parts_(grouping.on_nodes ? group_nodes(context) : GroupNodes{context.groups.size(), 1}) {
    check_equal_slots(context);
    similarity_.resize(static_cast<std::size_t>(context.layers));
  }
  double compression() const override { return grouping_.compression; }

 private:
  void finish(LayerDecision& decision, const SlotTable&,
              std::span<const StepSlots>) const override {
    if (grouping_.compression == 1) return;
    const auto smaller = [&](Bytes bytes) {
      return Bytes(std::llround(static_cast<double>(bytes.value) / grouping_.compression));
    };
    decision.memory =
        whole_experts(decision.assignment.placement(), context().model, context().state);
    for (ExpertMemory& gpu : decision.memory) {
      gpu.weights = smaller(gpu.weights);
      gpu.gradients = smaller(gpu.gradients);
      gpu.optimizer = smaller(gpu.optimizer);
    }
  }
  SlotTable place(int of_layer) override {
    const auto layer = static_cast<std::size_t>(of_layer);
    const int most = context().experts;
    const auto groups = similar_groups(without_weak_pairs(*similarity_[layer].now, grouping_.floor),
                                       std::min(parts_.nodes * grouping_.groups_per_part, most), 1);
    const auto loads = all_loads()[layer];
    const std::vector<int> part_of = place_groups(groups, loads, parts_.nodes);
    std::vector<std::vector<ExpertId>> parts(static_cast<std::size_t>(parts_.nodes));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto& part = parts[static_cast<std::size_t>(part_of[g])];
      part.insert(part.end(), groups[g].begin(), groups[g].end());
    }
    SlotTable table;
    const auto gpus = static_cast<std::size_t>(parts_.gpus_per_node);
    for (auto& part : parts) {
      std::sort(part.begin(), part.end());
      for (std::size_t g = 0; g < gpus; ++g) {
        const auto cut = [&](std::size_t i) {
          return part.begin() + static_cast<std::ptrdiff_t>(part.size() * i / gpus);
        };
        table.emplace_back(cut(g), cut(g + 1));
      }
    }
    return table;
  }

  void observe_all(const LayerRoutingNow& now, bool begins) override {
    ProfiledPlanner::observe_all(now, begins);
    Similarity& mine = similarity_[static_cast<std::size_t>(now.layer)];
    if (begins) mine.before = mine.now;
    const SquareMatrix newest = co_choice_similarity(newest_pairs(now.layer));
    mine.now = newest;
    if (!mine.before) return;
    mine.now = mine.before;
    update_similarity(*mine.now, newest, grouping_.rate);
  }

  struct Similarity {
    std::optional<SquareMatrix> now, before;  // the newest step
  };

  GroupingOptions grouping_;
  GroupNodes parts_;
  std::vector<Similarity> similarity_;  // [layer]
};

}  // namespace

// groups: per-gpu or per-node; groups_per_part: of each; rate and floor of the similarity;
// compression: of experts (default 1: whole); interval (T_c, 100 steps) and others as of planners
// that lag.
PlacementMaker read_dynamic_grouping(const YamlMap& params) {
  GroupingOptions grouping;
  grouping.on_nodes = params.choice("groups", {"per-gpu", "per-node"}, 0) == 1;
  grouping.groups_per_part = static_cast<int>(params.integer("groups_per_part", {1, 1024}, 1));
  grouping.rate = params.number("rate", {0, 1}, grouping.rate);
  grouping.floor = params.number("floor", {0, 1}, grouping.floor);
  grouping.compression = params.number("compression", {1, 1e6}, grouping.compression);
  PlanningOptions defaults;
  defaults.interval = 100;
  const PlanningOptions options = read_planning_options(params, defaults);
  return [=](const PlacementContext& context) {
    return std::make_unique<DynamicGrouping>(context, options, grouping);
  };
}

}  // namespace moesim
