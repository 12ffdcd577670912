// SPDX-License-Identifier: Apache-2.0
#include "sim/import/microbatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/figures.h"

namespace moesim {
namespace {

constexpr int most_sequences = 64;
constexpr std::int64_t most_lag = 2 * most_sequences + 1;

constexpr std::int64_t sampled_layers = 4;

/// Experts that two tokens share.
int shared_choices(const ChoiceTable& ids, std::int64_t layer, std::int64_t a, std::int64_t b) {
  int shared = 0;
  for (std::int64_t i = 0; i < ids.choices(); ++i) {
    const std::int64_t expert = ids.at(a, layer, i);
    for (std::int64_t j = 0; j < ids.choices(); ++j) shared += ids.at(b, layer, j) == expert;
  }
  return shared;
}

struct LagOverlap {
  double mean = 0;  // part of a token's choices that the token `lag` before it has, too
  double error = 1;
};

LagOverlap overlap_at(const ChoiceTable& ids, std::int64_t lag, std::int64_t sampled) {
  const std::int64_t pairs = std::min(ids.tokens() - lag, sampled);
  const std::int64_t layers = std::min(ids.layers(), sampled_layers);
  if (pairs <= 0) return {};
  double sum = 0;
  for (std::int64_t l = 0; l < layers; ++l) {
    for (std::int64_t t = 0; t < pairs; ++t) sum += shared_choices(ids, l, t, t + lag);
  }
  const auto compared = static_cast<double>(pairs * layers);
  return {sum / (compared * static_cast<double>(ids.choices())), 0.5 / std::sqrt(compared)};
}

/// Five standard errors, and more than the few percent that a language's rhythm makes.
double margin_of(const LagOverlap& lag) { return std::max(0.03, 5 * lag.error); }

/// Of a microbatch of `all` tokens, some of which these are.
int sequences_by_lags(const ChoiceTable& ids, std::int64_t all, std::int64_t sampled) {
  std::vector<LagOverlap> lags(1);
  for (std::int64_t lag = 1; lag <= std::min(most_lag, ids.tokens() / 2); ++lag) {
    lags.push_back(overlap_at(ids, lag, sampled));
  }
  for (std::size_t n = 2; n <= most_sequences && 2 * n + 1 < lags.size(); ++n) {
    if (all % static_cast<std::int64_t>(n) != 0) continue;
    double others = 0;
    for (std::size_t lag = 1; lag <= 2 * n + 1; ++lag) {
      if (lag % n != 0) others = std::max(others, lags[lag].mean);
    }
    if (std::min(lags[n].mean, lags[2 * n].mean) > others + margin_of(lags[2 * n])) {
      return static_cast<int>(n);
    }
  }
  return 1;
}

bool equal_choices(const ChoiceTable& ids, std::int64_t a, std::int64_t b) {
  for (std::int64_t l = 0; l < ids.layers(); ++l) {
    for (std::int64_t k = 0; k < ids.choices(); ++k) {
      if (ids.at(a, l, k) != ids.at(b, l, k)) return false;
    }
  }
  return true;
}

/// First tokens that choose alike, `each` by `each`.
struct EqualGroups {
  int each = 1;
  std::int64_t tokens = 0;
  double evidence = 0;  // bits: how unlikely chance puts every change between two groups
};

EqualGroups equal_groups(const ChoiceTable& ids) {
  const std::int64_t sampled = std::min(ids.tokens(), many_tokens);
  std::vector<std::int64_t> changes;  // tokens that choose otherwise than those before
  for (std::int64_t t = 1; t < sampled; ++t) {
    if (equal_choices(ids, t - 1, t)) continue;
    const bool alone = !changes.empty() && changes.back() + 1 == t;  // in no group
    changes.push_back(t);
    if (alone) break;
  }
  EqualGroups most;
  for (int n = 2; n <= most_sequences; ++n) {
    if (ids.tokens() % n != 0) continue;
    const auto odd = std::ranges::find_if(changes, [&](std::int64_t t) { return t % n != 0; });
    const auto between = static_cast<double>(odd - changes.begin());
    const double evidence = between * std::log2(static_cast<double>(n));
    if (evidence <= most.evidence) continue;
    most = {n, (odd == changes.end() ? sampled : *odd) / n * n, evidence};
  }
  return most;
}

constexpr double tells = 10, hints = 5;  // bits

}  // namespace

int alternating_sequences(const ChoiceTable& ids, std::int64_t sampled) {
  const int by_lags = sequences_by_lags(ids, ids.tokens(), sampled);
  if (by_lags > 1) return by_lags;
  const EqualGroups prompt = equal_groups(ids);
  if (prompt.evidence < hints) return 1;
  const auto fits = [&](std::int64_t n) { return n > 1 && ids.tokens() % n == 0; };
  if (prompt.tokens < ids.tokens()) {
    const auto after = sequences_by_lags(ids.part(prompt.tokens, ids.tokens() - prompt.tokens),
                                         ids.tokens(), sampled);
    const bool agree = after % prompt.each == 0 || prompt.each % after == 0;
    if (agree && fits(after)) return after;
  }
  if (prompt.evidence < tells) return 1;
  // Samples of several prompts: those of each are neighbours.
  const ChoiceTable positions = ids.part(0, prompt.tokens).every(0, prompt.each);
  const int all = prompt.each * sequences_by_lags(positions, ids.tokens() / prompt.each, sampled);
  return fits(all) ? all : prompt.each;
}

bool may_alternate(const ChoiceTable& ids) { return equal_groups(ids).evidence >= hints; }

bool are_neighbours_nearer(const ChoiceTable& ids, int sequences) {
  if (ids.tokens() <= sequences) return false;
  const LagOverlap apart = overlap_at(ids, sequences, few_tokens);
  return overlap_at(ids, 1, few_tokens).mean > apart.mean + margin_of(apart);
}

std::vector<RoutedPass> without_alternation(const RoutedPass& pass, int sequences) {
  const std::int64_t tokens = pass.ids.tokens();
  if (sequences <= 1 || tokens == 0) return {pass};
  if (tokens % sequences != 0) {
    throw error_in(pass.where,
                   fmt::format("has {}, which are not {} of one length", counted(tokens, "token"),
                               counted(sequences, "sequence")),
                   "--micro-batch N: a microbatch has N sequences, padded to one length");
  }
  std::vector<RoutedPass> passes;
  for (int s = 0; s < sequences; ++s) {
    RoutedPass one = pass;
    one.ids = pass.ids.every(s, sequences);
    if (pass.weights) one.weights = pass.weights->every(s, sequences);
    one.lengths = {static_cast<std::int32_t>(tokens / sequences)};
    passes.push_back(std::move(one));
  }
  return passes;
}

}  // namespace moesim
