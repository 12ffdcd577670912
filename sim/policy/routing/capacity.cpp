// SPDX-License-Identifier: Apache-2.0
// Expert capacity: every source rank may send an expert so many choices, the others are dropped.
// The rules of Tutel, Megatron-LM, DeepSpeed, mesh-tensorflow, Flaxformer and FastMoE.
#include <algorithm>
#include <array>

#include "sim/policy/policies.h"
#include "sim/policy/routing/capacity_rule.h"
#include "sim/policy/routing/rewrite.h"

namespace moesim {
namespace {

enum class Drop { position, weights, batch_priority };

/// A choice that asks for a place at its expert.
struct Candidate {
  std::int64_t token;
  int place;  // in the token's row
  float weight;
};

class CapacityRouting final : public Routing {
 public:
  CapacityRouting(const RoutingContext& context, Capacity capacity, Drop drop)
      : experts_(context.experts), capacity_(capacity), drop_(drop) {}

  /// Where a batch holds a recorded token several times, what is dropped once is dropped always:
  /// its row exists once.
  IdRows apply(const RecordedRouting& recorded, RoutingChange& change) override {
    if (drop_ != Drop::position && !recorded.step.has_weights()) {
      throw Error("'routing.drop' goes by gate weights, which the trace does not have",
                  "say drop: position");
    }
    ids_.copy(recorded);
    for (const auto& runs : recorded.batch.ranks) drop_of_rank(recorded, runs);
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  void drop_of_rank(const RecordedRouting& recorded, const std::vector<TokenRun>& runs) {
    const int top_k = ids_.view().top_k();
    std::int64_t tokens = 0;
    std::vector<std::int64_t> served(static_cast<std::size_t>(experts_));
    for (const TokenRun& run : runs) {
      tokens += run.count;
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        for (const auto id : ids_.row(t)) {
          if (id != IdRows::dropped) ++served[id];
        }
      }
    }
    const std::int64_t capacity = capacity_.rows(tokens, experts_, top_k);
    if (*std::max_element(served.begin(), served.end()) <= capacity) return;
    std::fill(served.begin(), served.end(), 0);
    for (const Candidate& c : candidates(recorded, runs, top_k)) {
      auto& id = ids_.row(c.token)[static_cast<std::size_t>(c.place)];
      if (id == IdRows::dropped) continue;
      if (served[id] == capacity) {
        id = IdRows::dropped;
      } else {
        ++served[id];
      }
    }
  }

  /// The rank's choices in the order in which they get places.
  std::vector<Candidate> candidates(const RecordedRouting& recorded,
                                    const std::vector<TokenRun>& runs, int top_k) const {
    std::vector<std::vector<Candidate>> by_choice(static_cast<std::size_t>(top_k));
    const bool together = drop_ == Drop::weights || !capacity_.choice_by_choice(top_k);
    const bool weights = recorded.step.has_weights();
    std::vector<int> places;
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        rank_choices(recorded, t, places);
        const float best = weights ? recorded.step.weight(recorded.layer, t, places[0]) : 0;
        for (std::size_t i = 0; i < places.size(); ++i) {
          const float own = weights ? recorded.step.weight(recorded.layer, t, places[i]) : 0;
          by_choice[together ? 0 : i].push_back(
              {t, places[i], drop_ == Drop::batch_priority ? best : own});
        }
      }
    }
    std::vector<Candidate> order;
    for (auto& candidates : by_choice) {
      if (drop_ != Drop::position) {
        std::stable_sort(
            candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
      }
      order.insert(order.end(), candidates.begin(), candidates.end());
    }
    return order;
  }

  int experts_;
  Capacity capacity_;
  Drop drop_;
  RewrittenIds ids_;
};

}  // namespace

// rule, factor: the capacity; drop: position (later tokens), weights (smallest gate weights) or
// batch-priority (tokens with a small largest weight).
RoutingMaker read_capacity_routing(const YamlMap& params) {
  const Capacity capacity = read_capacity(params, false);
  const auto drop =
      static_cast<Drop>(params.choice("drop", {"position", "weights", "batch-priority"}, 0));
  return [=](const RoutingContext& context) {
    return std::make_unique<CapacityRouting>(context, capacity, drop);
  };
}

}  // namespace moesim
