// SPDX-License-Identifier: Apache-2.0
// Expert capacity: every source rank may send an expert so many choices, the others are dropped.
// The rules of Tutel, Megatron-LM, DeepSpeed, mesh-tensorflow, Flaxformer and FastMoE, and GShard's
// random second choice (arXiv 2006.16668, in tensorflow/mesh moe.py, _top_2_gating).
#include <algorithm>
#include <array>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/capacity_rule.h"
#include "sim/mechanism/routing/rewrite.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

enum class Drop { position, weights, batch_priority };

/// What asks for places.
struct Asking {
  Drop drop = Drop::position;  // who is served last
  int choices = 0;             // the best ones of a token; 0: all
  bool random_second = false;  // a second choice asks by chance, the likelier the heavier it is
  std::uint64_t seed = 1;
};

/// A second choice of at least this part of both weights always asks (GShard).
constexpr double sure_part = 0.2;

/// A choice that asks for a place at its expert.
struct Candidate {
  BatchToken token;
  int place;  // in the token's row
  float weight;
};

class CapacityRouting final : public Routing {
 public:
  CapacityRouting(const RoutingContext& context, Capacity capacity, Asking asking)
      : experts_(context.experts), capacity_(capacity), asking_(asking) {}

  int choices(int recorded) const override {
    return asking_.choices == 0 ? recorded : std::min(asking_.choices, recorded);
  }

  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    need_weights(recorded);
    ids_.copy(recorded);
    for_each_batch_token(recorded.batch,
                         [&](const BatchToken& token) { withdraw(recorded, token); });
    std::int64_t first = 0;
    for (std::size_t r = 0; r < recorded.batch.ranks.size(); ++r) {
      first = drop_of_rank(recorded, GpuId(static_cast<std::int64_t>(r)), first);
    }
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  void need_weights(const RecordedRouting& recorded) const {
    if (recorded.step.has_weights()) return;
    if (asking_.random_second) {
      throw Error("'routing.second' goes by gate weights, which the trace does not have",
                  "say second: all");
    }
    if (asking_.drop != Drop::position) {
      throw Error("'routing.drop' goes by gate weights, which the trace does not have",
                  "say drop: position");
    }
  }

  int choices() const { return choices(ids_.top_k()); }

  /// Choices that ask for no place are dropped from the start.
  void withdraw(const RecordedRouting& recorded, const BatchToken& token) {
    const auto asking = static_cast<std::size_t>(choices());
    if (!asking_.random_second && asking == static_cast<std::size_t>(ids_.top_k())) return;
    const auto row = ids_.row(token.at);
    rank_choices(recorded, token.recorded, places_);
    for (std::size_t i = asking; i < places_.size(); ++i) {
      row[static_cast<std::size_t>(places_[i])] = IdRows::dropped;
    }
    if (asking_.random_second && asking > 1 && !second_asks(recorded, token)) {
      row[static_cast<std::size_t>(places_[1])] = IdRows::dropped;
    }
  }

  /// With probability min(1, g2 / 0.2), where g2 is the second weight's part of both. What a token
  /// draws depends only on the seed, its rank and where it was recorded.
  bool second_asks(const RecordedRouting& recorded, const BatchToken& token) const {
    const auto weight = [&](std::size_t i) {
      return double{recorded.step.weight(recorded.layer, token.recorded, places_[i])};
    };
    const double both = weight(0) + weight(1);
    const double part = both > 0 ? weight(1) / both : 0;
    const auto layer = static_cast<std::uint64_t>(recorded.layer);
    const auto step = static_cast<std::uint64_t>(recorded.step.number());
    const auto rank = static_cast<std::uint64_t>(token.rank.value);
    Random random(asking_.seed, step << 16 | layer,
                  static_cast<std::uint64_t>(token.recorded) << 20 | rank);
    return random.uniform() < part / sure_part;
  }

  /// Returns the number of the next rank's first token.
  std::int64_t drop_of_rank(const RecordedRouting& recorded, GpuId rank, std::int64_t first) {
    std::vector<std::int64_t> served(static_cast<std::size_t>(experts_));
    const std::int64_t next =
        for_each_rank_token(recorded.batch, rank, first, [&](const BatchToken& token) {
          for (const auto id : ids_.row(token.at)) {
            if (id != IdRows::dropped) ++served[id];
          }
        });
    const std::int64_t capacity = capacity_.rows(next - first, experts_, choices());
    if (*std::max_element(served.begin(), served.end()) <= capacity) return next;
    std::fill(served.begin(), served.end(), 0);
    for (const Candidate& c : candidates(recorded, rank, first)) {
      auto& id = ids_.row(c.token.at)[static_cast<std::size_t>(c.place)];
      if (id == IdRows::dropped) continue;
      if (served[id] == capacity) {
        id = IdRows::dropped;
      } else {
        ++served[id];
      }
    }
    return next;
  }

  /// The rank's choices in the order in which they get places.
  std::vector<Candidate> candidates(const RecordedRouting& recorded, GpuId rank,
                                    std::int64_t first) const {
    const int top_k = ids_.top_k();
    std::vector<std::vector<Candidate>> by_choice(static_cast<std::size_t>(top_k));
    const bool together = asking_.drop == Drop::weights || !capacity_.choice_by_choice(choices());
    const bool weights = recorded.step.has_weights();
    const auto weight = [&](const BatchToken& token, int place) {
      return weights ? recorded.step.weight(recorded.layer, token.recorded, place) : 0;
    };
    std::vector<int> places;
    for_each_rank_token(recorded.batch, rank, first, [&](const BatchToken& token) {
      rank_choices(recorded, token.recorded, places);
      const float best = weight(token, places[0]);
      for (std::size_t i = 0; i < places.size(); ++i) {
        const float own = weight(token, places[i]);
        by_choice[together ? 0 : i].push_back(
            {token, places[i], asking_.drop == Drop::batch_priority ? best : own});
      }
    });
    std::vector<Candidate> order;
    for (auto& candidates : by_choice) {
      if (asking_.drop != Drop::position) {
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
  Asking asking_;
  RewrittenIds ids_;
  std::vector<int> places_;  // of the token at hand, best first
};

}  // namespace

// rule, factor: the capacity; drop: position (later tokens), weights (smallest gate weights) or
// batch-priority (tokens with a small largest weight); choices: of a token, the others are dropped
// (default: all); second: all or random, drawn from `seed`.
RoutingMaker read_capacity_routing(const YamlMap& params) {
  const Capacity capacity = read_capacity(params, NegativeFactor::refused);
  Asking asking;
  asking.drop =
      static_cast<Drop>(params.choice("drop", {"position", "weights", "batch-priority"}, 0));
  asking.choices = static_cast<int>(params.integer("choices", {1, max_top_k}, 0));
  asking.random_second = params.choice("second", {"all", "random"}, 0) == 1;
  asking.seed = static_cast<std::uint64_t>(params.integer("seed", {0, 1LL << 53}, 1));
  if (const auto seed = params.find("seed"); seed && !asking.random_second) {
    seed->error("'routing.seed' has no effect: nothing is drawn", "say second: random");
  }
  return [=](const RoutingContext& context) {
    return std::make_unique<CapacityRouting>(context, capacity, asking);
  };
}

}  // namespace moesim
