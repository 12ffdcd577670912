// SPDX-License-Identifier: Apache-2.0
// Occult's pruning (arXiv 2505.13345): a token visits few of the GPUs on which the placement of the
// step puts its experts.
//
// The paper ranks by the router's outputs for all experts; traces record them only for chosen
// experts. Our approximation: an output that is not recorded counts 0 (without weights every
// recorded one counts 1). So similarity becomes the cosine of the weights with which experts are
// chosen together, and pruning by score fills up with the experts that the batch chooses most. The
// profile is the first recorded step in which a layer is seen.
#include <cmath>
#include <map>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/occult.h"
#include "sim/mechanism/routing/rewrite.h"
#include "sim/mechanism/routing/serving_gpus.h"

namespace moesim {
namespace {

enum class By { similarity, score };

/// Cosine of the recorded weights of any two experts over the tokens of a layer.
ExpertSimilarity recorded_similarity(const RecordedRouting& recorded, int experts) {
  const IdRows ids = recorded.step.ids(recorded.layer);
  const auto n = static_cast<std::size_t>(experts);
  ExpertSimilarity similarity{experts, std::vector<double>(n * n)};
  const auto weight = [&](std::int64_t t, int k) {
    return recorded.step.has_weights() ? double{recorded.step.weight(recorded.layer, t, k)} : 1.0;
  };
  for (std::int64_t t = 0; t < ids.tokens(); ++t) {
    for (int i = 0; i < ids.top_k(); ++i) {
      const std::size_t row = static_cast<std::size_t>(ids.at(t, i)) * n;
      for (int j = 0; j < ids.top_k(); ++j) {
        similarity.values[row + static_cast<std::size_t>(ids.at(t, j))] +=
            weight(t, i) * weight(t, j);
      }
    }
  }
  std::vector<double> norm;
  for (std::size_t e = 0; e < n; ++e) norm.push_back(std::sqrt(similarity.values[e * n + e]));
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      const double both = norm[a] * norm[b];
      if (both > 0) similarity.values[a * n + b] /= both;
    }
  }
  return similarity;
}

class OccultPrune final : public Routing {
 public:
  OccultPrune(const RoutingContext& context, int allowed, By by)
      : experts_(context.experts), allowed_(allowed), by_(by) {}

  bool after_placement() const override { return true; }

  /// Throws Error when the choices of a token do not fit the experts on the GPUs that it may visit.
  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    start(recorded);
    ServingGpus serving(*recorded.placed);
    for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
      serving.enter(token.rank);
      prune(recorded, token, serving.gpus());
      serving.serve(ids_.row(token.at));
    });
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  /// What the tokens of this layer and step are pruned by.
  void start(const RecordedRouting& recorded) {
    if (by_ == By::similarity) {
      if (similarity_.count(recorded.layer) == 0) {
        similarity_.emplace(recorded.layer, recorded_similarity(recorded, experts_));
      }
      return;
    }
    scores_.resize(static_cast<std::size_t>(experts_));
    float rank = 0;
    for (const ExpertId e : most_chosen(recorded, experts_)) scores_[e.index()] = -++rank;
  }

  void prune(const RecordedRouting& recorded, const BatchToken& token,
             std::span<const GpuId> gpu_of) {
    rank_choices(recorded, token.recorded, places_);
    const auto row = ids_.row(token.at);
    std::vector<ExpertId> ranked;
    for (const int k : places_) ranked.emplace_back(row[static_cast<std::size_t>(k)]);
    const auto pruned =
        by_ == By::similarity
            ? prune_by_similarity(ranked, similarity_.at(recorded.layer), gpu_of, allowed_)
            : by_score(ranked, gpu_of);
    for (std::size_t i = 0; i < pruned.size(); ++i) {
      row[static_cast<std::size_t>(places_[i])] = static_cast<std::uint16_t>(pruned[i].value);
    }
  }

  /// Chosen experts score above all others, in their order.
  std::vector<ExpertId> by_score(const std::vector<ExpertId>& ranked,
                                 std::span<const GpuId> gpu_of) {
    std::vector<float> others;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      others.push_back(scores_[ranked[i].index()]);
      scores_[ranked[i].index()] = static_cast<float>(ranked.size() - i);
    }
    auto pruned = prune_by_score(ranked, scores_, gpu_of, allowed_);
    for (std::size_t i = 0; i < ranked.size(); ++i) scores_[ranked[i].index()] = others[i];
    return pruned;
  }

  int experts_;
  int allowed_;
  By by_;
  RewrittenIds ids_;
  std::map<int, ExpertSimilarity> similarity_;  // [layer]
  std::vector<float> scores_;                   // [expert]
  std::vector<int> places_;
};

}  // namespace

// gpus: that a token may visit; by: similarity or score.
RoutingMaker read_occult_prune(const YamlMap& params) {
  const auto allowed = static_cast<int>(params.integer("gpus", {1, 65535}, 2));
  const auto by = static_cast<By>(params.choice("by", {"similarity", "score"}, 0));
  return [=](const RoutingContext& context) {
    return std::make_unique<OccultPrune>(context, allowed, by);
  };
}

}  // namespace moesim
