// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/group_gate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace moesim {
namespace {

/// Scores by the machine's own exp and log, which are fast, differ from the portable ones by a
/// relative 1e-12 at most, as long as both are normal numbers. Scores closer than uncertain are
/// decided by the portable ones, so that every machine draws the same.
constexpr double uncertain = 1e-10, least_normal = 1e-300;

/// Below every score.
constexpr double no_score = -1;

/// Whether no rounding can swap the two.
bool apart(double larger, double smaller) {
  if (smaller == no_score) return larger > no_score;
  return larger > least_normal && larger - smaller > uncertain * larger;
}

double fast_pow(double x, double y) { return std::exp(y * std::log(x)); }

double score_of(double u, double w, double (*pow)(double, double)) {
  return w == 1 ? u : w > 0 && u > 0 ? pow(u, 1 / w) : 0;
}

}  // namespace

GroupGate::GroupGate(int experts, int top_k, int groups, int kept_groups)
    : top_k_(top_k),
      groups_(groups),
      kept_groups_(kept_groups),
      size_(experts / groups),
      counted_(std::max(1, top_k / kept_groups)),
      experts_(static_cast<std::size_t>(experts)),
      likely_(experts_.size()),
      kept_(experts_.size()),
      kept_group_(static_cast<std::size_t>(groups)),
      no_cut_(static_cast<std::size_t>(groups), no_score),
      uniform_(experts_.size()),
      score_(experts_.size()),
      best_(static_cast<std::size_t>(counted_)) {
  std::iota(experts_.begin(), experts_.end(), 0);
}

/// Finds, by bisection, a score per group that `wanted` of its experts pass on average: an expert
/// of weight w scores more than exp(-t) with probability 1 - exp(-t w). Experts below hardly ever
/// win, so their scores need not be computed.
GroupGate::Weights GroupGate::ready(std::vector<double> weight) const {
  Weights ready{std::move(weight), {}, {}};
  const double wanted = 2.0 * counted_ + top_k_;  // hardly ever too few
  for (int g = 0; g < groups_; ++g) {
    const std::span<const double> group(ready.weight.data() + g * size_,
                                        static_cast<std::size_t>(size_));
    double low = -20, high = 9;  // of log2 t, where exp(-t) is the cut
    for (int i = 0; i < 12; ++i) {
      const double t = std::exp2((low + high) / 2);
      double passing = 0;
      for (const double w : group) passing += 1 - std::exp(-t * w);
      (passing < wanted ? low : high) = (low + high) / 2;
    }
    const double t = std::exp2(high);
    ready.cut.push_back(std::exp(-t));
    for (const double w : group) ready.least.push_back(w > 0 ? std::exp(-t * w) : 1);
  }
  return ready;
}

/// Tries the likely experts first, then all with fast scores, then all with portable ones, until
/// the result is certain. Every token takes the same random numbers whichever try succeeds.
void GroupGate::choose(std::vector<int>& row, const Weights& weights, Random& random) {
  for (const int e : row) kept_[e] = 1;
  std::size_t likely = 0;
  for (std::size_t e = 0; e < uniform_.size(); ++e) {
    const double u = random.uniform();
    uniform_[e] = u;
    likely_[likely] = static_cast<int>(e);  // the next one takes its place unless it is likely
    likely += static_cast<std::size_t>(u > weights.least[e]) | static_cast<std::size_t>(kept_[e]);
  }
  const std::vector<int> before = row;
  const bool certain = take_best({likely_.data(), likely}, weights, weights.cut, fast_pow, row) ||
                       take_best(experts_, weights, no_cut_, fast_pow, row);
  if (!certain) take_best(experts_, weights, no_cut_, portable_pow, row);
  for (const int e : before) kept_[e] = 0;
}

bool GroupGate::take_best(std::span<const int> of, const Weights& weights,
                          std::span<const double> cut, Pow* pow, std::vector<int>& row) {
  for (const int expert : of) {
    const auto e = static_cast<std::size_t>(expert);
    score_[e] = score_of(uniform_[e], weights.weight[e], pow) + kept_[e];
  }
  bool certain = rank_groups(of, cut);
  allowed_.clear();
  for (const int e : of) {
    if (kept_group_[e / size_]) {
      allowed_.emplace_back(-score_[e], e);
    }
  }
  if (std::ssize(allowed_) < top_k_) return false;
  const auto ordered = std::min(std::ssize(allowed_), std::ptrdiff_t{top_k_} + 1);
  std::partial_sort(allowed_.begin(), allowed_.begin() + ordered, allowed_.end());
  row.clear();
  for (std::ptrdiff_t k = 0; k < ordered; ++k) {
    const auto at = allowed_.begin() + k;
    if (k > 0) certain = certain && apart(-(at - 1)->first, -at->first);
    if (k < top_k_) row.push_back(at->second);
  }
  const double last = -allowed_[top_k_ - 1].first;
  for (int g = 0; g < groups_ && certain; ++g) {
    const auto group = static_cast<std::size_t>(g);
    certain = !kept_group_[group] || apart(last, cut[group]);
  }
  return certain;
}

bool GroupGate::rank_groups(std::span<const int> of, std::span<const double> cut) {
  bool certain = true;
  ranked_.clear();
  auto expert = of.begin();
  for (int g = 0; g < groups_; ++g) {
    std::fill(best_.begin(), best_.end(), no_score);  // of a group with fewer
    for (; expert != of.end() && *expert < (g + 1) * size_; ++expert) {
      const double score = score_[*expert];
      if (score <= best_.back()) continue;
      auto place = best_.end() - 1;
      for (; place != best_.begin() && *(place - 1) < score; --place) *place = *(place - 1);
      *place = score;
    }
    certain = certain && apart(best_.back(), cut[g]);
    ranked_.emplace_back(-std::accumulate(best_.begin(), best_.end(), 0.0), g);
  }
  std::sort(ranked_.begin(), ranked_.end());
  std::fill(kept_group_.begin(), kept_group_.end(), 0);
  for (int i = 0; i < kept_groups_; ++i) {
    const int group = ranked_[i].second;
    kept_group_[group] = 1;
  }
  if (kept_groups_ == groups_) return certain;
  const auto last = ranked_.begin() + kept_groups_;
  return certain && apart(-(last - 1)->first, -last->first);
}

}  // namespace moesim
