// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/affinity/affinity_profile.h"

#include <fmt/format.h>

#include "sim/balance/training/owners.h"
#include "sim/policy/placement/replica_use.h"
#include "sim/policy/unsuitable.h"

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
    : Lagged(context, options.lagged,
             contiguous_placement(context.experts, context.gpus, context.ep).table()),
      kind_(pairs),
      offline_(options.offline),
      window_(static_cast<std::size_t>(options.lagged.window)),
      layers_(static_cast<std::size_t>(context.layers)) {}

PairMatrix ProfiledPlanner::pairs_of(int layer) const {
  PairMatrix sum(context().experts);
  for (const PairMatrix& step : layers_[static_cast<std::size_t>(layer)].pairs) sum += step;
  return sum;
}

std::vector<PairMatrix> ProfiledPlanner::all_pairs() const {
  std::vector<PairMatrix> pairs;
  for (int layer = 0; layer + 1 < context().layers; ++layer) pairs.push_back(pairs_of(layer));
  return pairs;
}

std::vector<std::vector<std::int64_t>> ProfiledPlanner::all_loads() const {
  std::vector<std::vector<std::int64_t>> all;
  for (const Seen& layer : layers_) {
    auto& sum = all.emplace_back(static_cast<std::size_t>(context().experts));
    for (const auto& step : layer.loads) {
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += step[e];
    }
  }
  return all;
}

Assignment ProfiledPlanner::assign(Placement placement, const LayerRoutingNow&) {
  return {placement, context().ep};
}

void ProfiledPlanner::observe(const LayerRoutingNow& now) {
  const auto layer = static_cast<std::size_t>(now.layer);
  const auto keep = [this](auto& history, auto newest) {
    history.push_back(std::move(newest));
    if (history.size() > window_) history.pop_front();
  };
  std::vector<int> choices = batch_choices(now.batch, now.ids);
  const int top_k = now.ids.top_k(), experts = context().experts;
  if (kind_ == Pairs::co_choices) {
    keep(layers_[layer].pairs, co_choices_of(choices, top_k, experts));
  } else if (layer > 0) {
    keep(layers_[layer - 1].pairs, transitions_between(before_, choices, top_k, experts));
  }
  keep(layers_[layer].loads, now.loads.per_expert());
  if (kind_ == Pairs::transitions) before_ = std::move(choices);
}

/// Slots change from contiguous ones at the first decision, and again only if it kept them.
ParamExchange ProfiledPlanner::migration(const SlotTable& before, const SlotTable& after) const {
  const bool first =
      before == contiguous_placement(context().experts, context().gpus, context().ep).table();
  if (offline_ && first) return {"migrate", traffic_of({}, context().gpus), {}, {}};
  return Lagged::migration(before, after);
}

SlotTable AllLayersPlanner::replan(int layer, int run, const LoadMatrix&, const SlotTable&) {
  if (layer == 0 && run == 0) planned_ = place();
  return planned_[static_cast<std::size_t>(layer)];
}

ProfileOptions read_profile_options(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  LaggedOptions defaults;
  defaults.interval = 1 << 20;
  defaults.first = defaults.window = static_cast<int>(params.integer("profile", steps, 4));
  const bool offline = params.choice("profiling", {"offline", "online"}, 0) == 0;
  return {read_lagged_options(params, defaults), offline};
}

void check_equal_slots(const PlacementContext& context, const std::string& who) {
  if (context.experts % context.ep == 0) return;
  throw Unsuitable(fmt::format("'{}' needs equally many experts on every rank: {} on {}", who,
                               context.experts, context.ep),
                   "another ep");
}

RunNodes run_nodes(const PlacementContext& context, const std::string& who) {
  const int host = gpus_per_host(context.topology, who), ep = context.ep;
  if (ep % host == 0) return {ep / host, host};
  if (host % ep == 0) return {1, ep};
  throw Unsuitable(
      fmt::format("'{}' needs runs of whole nodes: {} ranks on nodes of {} GPUs", who, ep, host),
      "another ep");
}

}  // namespace moesim
