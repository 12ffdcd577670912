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

/// A sample is enough to tell lags apart, and keeps the cost small next to reading the file.
constexpr std::int64_t sampled_tokens = 2048, sampled_layers = 4;

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

LagOverlap overlap_at(const ChoiceTable& ids, std::int64_t lag) {
  const std::int64_t pairs = std::min(ids.tokens() - lag, sampled_tokens);
  const std::int64_t layers = std::min(ids.layers(), sampled_layers);
  if (pairs <= 0) return {};
  double sum = 0;
  for (std::int64_t l = 0; l < layers; ++l) {
    for (std::int64_t t = 0; t < pairs; ++t) sum += shared_choices(ids, l, t, t + lag);
  }
  const auto compared = static_cast<double>(pairs * layers);
  return {sum / (compared * static_cast<double>(ids.choices())), 0.5 / std::sqrt(compared)};
}

}  // namespace

int alternating_sequences(const ChoiceTable& ids) {
  std::vector<LagOverlap> lags(1);
  for (std::int64_t lag = 1; lag <= std::min(most_lag, ids.tokens() / 2); ++lag) {
    lags.push_back(overlap_at(ids, lag));
  }
  for (std::size_t n = 2; n <= most_sequences && 2 * n + 1 < lags.size(); ++n) {
    if (ids.tokens() % static_cast<std::int64_t>(n) != 0) continue;
    double others = 0;
    for (std::size_t lag = 1; lag <= 2 * n + 1; ++lag) {
      if (lag % n != 0) others = std::max(others, lags[lag].mean);
    }
    // Five standard errors, and more than the few percent that a language's rhythm makes.
    const double margin = std::max(0.03, 5 * lags[2 * n].error);
    if (std::min(lags[n].mean, lags[2 * n].mean) > others + margin) return static_cast<int>(n);
  }
  return 1;
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
