// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/affinity_profile.h"

#include <fmt/format.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/replica_use.h"

namespace moesim {

std::vector<int> batch_choices(const Batch& batch, IdRows ids) {
  std::vector<int> choices;
  choices.reserve(static_cast<std::size_t>(batch.tokens() * ids.top_k()));
  for (const auto& runs : batch.ranks) {
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        for (int k = 0; k < ids.top_k(); ++k) {
          const int expert = ids.at(t, k);
          choices.push_back(ids.width() == 2 && expert == IdRows::dropped ? -1 : expert);
        }
      }
    }
  }
  return choices;
}

PairMatrix co_choices_of(const std::vector<int>& choices, int top_k, int experts) {
  PairMatrix pairs(experts);
  const auto k = static_cast<std::size_t>(top_k);
  for (std::size_t t = 0; t < choices.size(); t += k) {
    for (std::size_t a = t; a < t + k; ++a) {
      for (std::size_t b = t; b < t + k; ++b) {
        const bool pair = choices[a] >= 0 && choices[b] >= 0 && choices[a] != choices[b];
        if (pair) ++pairs.at(ExpertId(choices[a]), ExpertId(choices[b]));
      }
    }
  }
  return pairs;
}

PairMatrix transitions_between(const std::vector<int>& layer, const std::vector<int>& next,
                               int top_k, int experts) {
  PairMatrix pairs(experts);
  const auto k = static_cast<std::size_t>(top_k);
  for (std::size_t t = 0; t < layer.size(); t += k) {
    for (std::size_t a = t; a < t + k; ++a) {
      for (std::size_t b = t; b < t + k; ++b) {
        if (layer[a] >= 0 && next[b] >= 0) ++pairs.at(ExpertId(layer[a]), ExpertId(next[b]));
      }
    }
  }
  return pairs;
}

ProfiledPlanner::ProfiledPlanner(const PlacementContext& context, const ProfileOptions& options,
                                 Pairs pairs)
    : GroupPlanner(
          context, options.when,
          contiguous_placement(context.experts, context.groups.size(), context.groups.size())
              .table()),
      kind_(pairs),
      offline_(options.offline),
      pairs_(static_cast<std::size_t>(context.layers), Window<PairMatrix>(options.when.window)),
      loads_(static_cast<std::size_t>(context.layers), Window<LoadMatrix>(options.when.window)) {}

PairMatrix ProfiledPlanner::pairs_of(int layer) const {
  const auto& pairs = pairs_[static_cast<std::size_t>(layer)];
  return pairs.empty() ? PairMatrix(context().experts) : pairs.sum();
}

std::vector<PairMatrix> ProfiledPlanner::all_pairs() const {
  std::vector<PairMatrix> pairs;
  for (int layer = 0; layer + 1 < context().layers; ++layer) pairs.push_back(pairs_of(layer));
  return pairs;
}

std::vector<std::vector<std::int64_t>> ProfiledPlanner::all_loads() const {
  std::vector<std::vector<std::int64_t>> all;
  for (const auto& layer : loads_) {
    all.push_back(layer.empty()
                      ? std::vector<std::int64_t>(static_cast<std::size_t>(context().experts))
                      : layer.sum().per_expert());
  }
  return all;
}

std::optional<SlotTable> ProfiledPlanner::plan(const GroupLayer& at) {
  if (at.group == 0) planned_ = place(at.layer);
  return planned_;
}

void ProfiledPlanner::observe_all(const LayerRoutingNow& now, bool begins) {
  const auto layer = static_cast<std::size_t>(now.layer);
  std::vector<int> choices = batch_choices(now.batch, now.ids);
  const int top_k = now.ids.top_k(), experts = context().experts;
  if (kind_ == Pairs::co_choices) {
    pairs_[layer].add(co_choices_of(choices, top_k, experts), begins);
  } else if (layer > 0) {
    pairs_[layer - 1].add(transitions_between(before_, choices, top_k, experts), begins);
  }
  loads_[layer].add(now.loads.totals(), begins);
  if (kind_ == Pairs::transitions) before_ = std::move(choices);
}

/// Slots change from contiguous ones at the first decision, and again only if it kept them.
void ProfiledPlanner::move(LayerDecision& decision, const SlotTable& before,
                           const SlotTable& after) const {
  const SlotTable contiguous =
      groups().in_every_group(contiguous_placement(context().experts, ep(), ep()).table());
  if (!offline_ || before != contiguous) GroupPlanner::move(decision, before, after);
}

SlotTable AllLayersPlanner::place(int layer) {
  if (layer == 0) planned_ = place_all();
  return planned_[static_cast<std::size_t>(layer)];
}

ProfileOptions read_profile_options(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  PlanningOptions defaults;
  defaults.interval = 1 << 20;
  defaults.first = defaults.window = static_cast<int>(params.integer("profile", steps, 4));
  const bool offline = params.choice("profiling", {"offline", "online"}, 0) == 0;
  return {read_planning_options(params, defaults), offline};
}

void check_equal_slots(const PlacementContext& context) {
  if (context.experts % context.groups.size() == 0) return;
  throw Unsuitable(fmt::format("'{}' needs equally many experts on every rank: {} on {}",
                               context.who, context.experts, context.groups.size()),
                   "another ep");
}

}  // namespace moesim
