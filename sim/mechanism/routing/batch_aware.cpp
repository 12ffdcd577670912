// SPDX-License-Identifier: Apache-2.0
// Batch-aware pruning: fewer experts for the tokens of a batch together, because a decode is bound
// by reading the weights of all that are chosen by anybody. By opportunistic expert activation
// (arXiv 2511.02237) a token's first choices stay, of the others those of experts that are first
// choices of some token. By XShare (arXiv 2602.07265, vllm-project/vllm PR 35551) experts with
// little demand are masked, down to a budget.
//
// Both let a token take more of the experts that stay. Traces record no scores of experts
// that were not chosen, so that here its other choices are dropped: an interpretation.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/rewrite.h"

namespace moesim {
namespace {

struct BatchAwareRule {
  int first = 0;        // choices of a token that stay, by falling weight
  int budget = 0;       // experts of an EP group's batch that stay; 0: first choices do
  int most_tokens = 0;  // of a rank, from which nothing is pruned; 0: never
};

class BatchAware final : public Routing {
 public:
  BatchAware(const RoutingContext& context, const BatchAwareRule& rule)
      : groups_(context.groups), experts_(context.experts), rule_(rule) {
    const int top_k = context.model.top_k;
    if (rule.first > top_k) {
      throw Error(fmt::format("'routing.first' of {} of {} choices", rule.first, top_k),
                  fmt::format("at most {}", top_k));
    }
    if (rule.budget > 0 && (rule.budget < top_k || rule.budget > experts_)) {
      throw Error(
          fmt::format("'routing.budget' of {} is not within {}..{}", rule.budget, top_k, experts_),
          "a token's choices up to all experts");
    }
  }

  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    std::int64_t at = 0;
    const auto ranks = std::ssize(recorded.batch.ranks);
    for (std::int64_t first_rank = 0; first_rank < ranks; first_rank += groups_.size()) {
      const GpuId begin(first_rank);
      if (!is_small(recorded.batch, begin)) {
        at = for_each_token(recorded, begin, at, [](const BatchToken&) {});
        continue;
      }
      const std::int64_t first = at;
      find_kept(recorded, begin, first);
      at = for_each_token(recorded, begin, first, [&](const BatchToken& token) {
        for (std::uint16_t& id : ids_.row(token.at)) {
          if (!kept_[id]) id = IdRows::dropped;
        }
      });
    }
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  /// The tokens of an EP group, rank by rank.
  template <class Visit>
  std::int64_t for_each_token(const RecordedRouting& recorded, GpuId begin, std::int64_t at,
                              Visit visit) const {
    for (int rank = 0; rank < groups_.size(); ++rank) {
      at = for_each_rank_token(recorded.batch, GpuId(begin.value + rank), at, visit);
    }
    return at;
  }
  bool is_small(const Batch& batch, GpuId begin) const {
    for (int rank = 0; rule_.most_tokens > 0 && rank < groups_.size(); ++rank) {
      const auto& runs = batch.ranks[begin.index() + static_cast<std::size_t>(rank)];
      if (tokens_of(runs) > rule_.most_tokens) return false;
    }
    return true;
  }
  /// Ties of demand go to the lowest id. First choices stay over the budget.
  void find_kept(const RecordedRouting& recorded, GpuId begin, std::int64_t at) {
    const auto n = static_cast<std::size_t>(experts_);
    kept_.assign(n, false);
    std::vector<double> demand(n);
    for_each_token(recorded, begin, at, [&](const BatchToken& token) {
      rank_choices(recorded, token.recorded, places_);
      const auto row = ids_.row(token.at);
      for (std::size_t i = 0; i < places_.size(); ++i) {
        const int place = places_[i];
        const std::uint16_t id = row[static_cast<std::size_t>(place)];
        if (static_cast<int>(i) < rule_.first) kept_[id] = true;
        demand[id] += recorded.step.has_weights()
                          ? double{recorded.step.weight(recorded.layer, token.recorded, place)}
                          : 1.0;
      }
    });
    auto left = rule_.budget - std::ranges::count(kept_, true);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t e) { return demand[e]; });
    for (const std::size_t e : order) {
      if (left <= 0 || demand[e] <= 0) break;
      if (kept_[e]) continue;
      kept_[e] = true;
      --left;
    }
  }

  EpGroups groups_;
  int experts_;
  BatchAwareRule rule_;
  RewrittenIds ids_;
  std::vector<bool> kept_;  // [expert] of the EP group
  std::vector<int> places_;
};

}  // namespace

// first: choices of a token that stay whatever others choose (1 without a budget, else 0); budget:
// experts that a batch keeps (none); most_tokens: of a rank, above which nothing is pruned (none).
RoutingMaker read_batch_aware(const YamlMap& params) {
  BatchAwareRule rule;
  rule.budget = static_cast<int>(params.integer("budget", {0, 65535}, 0));
  const bool budgeted = rule.budget > 0;
  rule.first =
      static_cast<int>(params.integer("first", {budgeted ? 0.0 : 1.0, 65535}, budgeted ? 0 : 1));
  rule.most_tokens = static_cast<int>(params.integer("most_tokens", {0, 1 << 30}, 0));
  return
      [rule](const RoutingContext& context) { return std::make_unique<BatchAware>(context, rule); };
}

}  // namespace moesim
