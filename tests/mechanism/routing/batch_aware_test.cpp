// SPDX-License-Identifier: Apache-2.0
// Batch-aware pruning against a brute force, and the experts that a batch reads by the formula of
// opportunistic expert activation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/error_of.h"
#include "tests/mechanism/routing/recorded_layer.h"

namespace moesim {
namespace {

std::set<int> experts_of(const Rows& rows, std::size_t from, std::size_t to) {
  std::set<int> all;
  for (std::size_t t = from; t < to; ++t) {
    for (const int e : rows[t]) {
      if (e >= 0) all.insert(e);
    }
  }
  return all;
}

/// The experts that stay for the tokens of an EP group.
std::set<int> kept_by_brute_force(const Recorded& r, std::size_t from, std::size_t to, int first,
                                  int budget) {
  const Rows rows = r.rows();
  std::set<int> kept;
  std::map<int, double> demand;
  for (std::size_t t = from; t < to; ++t) {
    const auto order = order_of(r, static_cast<std::int64_t>(t));
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto k = static_cast<std::size_t>(order[i]);
      if (static_cast<int>(i) < first) kept.insert(rows[t][k]);
      demand[rows[t][k]] +=
          r.step->has_weights() ? r.step->weight(0, static_cast<std::int64_t>(t), order[i]) : 1;
    }
  }
  while (static_cast<int>(kept.size()) < budget) {
    int best = -1;
    for (const auto& [e, d] : demand) {
      if (!kept.contains(e) && (best < 0 || d > demand[best])) best = e;
    }
    if (best < 0) break;
    kept.insert(best);
  }
  return kept;
}

TEST(BatchAware, KeepsWhatABruteForceKeeps) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const bool weights = round % 2 == 0;
    const Recorded r = random_layer(random, 4, 6, 16, 4, weights);
    const int first = static_cast<int>(random() % 4), budget = 4 + static_cast<int>(random() % 12);
    for (const int ep : {4, 2}) {
      const Routed routed = route(
          fmt::format("{{kind: batch-aware, first: {}, budget: {}}}", first, budget), r, {}, ep);
      const Rows before = r.rows();
      std::int64_t dropped = 0;
      for (std::size_t from = 0; from < before.size(); from += static_cast<std::size_t>(6 * ep)) {
        const std::size_t to = from + static_cast<std::size_t>(6 * ep);
        const std::set<int> kept = kept_by_brute_force(r, from, to, first, budget);
        for (std::size_t t = from; t < to; ++t) {
          for (std::size_t k = 0; k < 4; ++k) {
            const int expected = kept.contains(before[t][k]) ? before[t][k] : -1;
            EXPECT_EQ(routed.rows[t][k], expected);
            dropped += expected < 0 ? 1 : 0;
          }
        }
        EXPECT_LE(static_cast<int>(kept.size()), std::max(budget, 24 * first));
      }
      EXPECT_EQ(routed.change.dropped_choices, dropped);
      EXPECT_EQ(routed.change.replaced_choices, 0);
    }
  }
}

/// N (1 - (1 - k / N)^B) experts are read if B tokens choose k of N evenly (arXiv 2511.02237):
/// 82 of 128 by Qwen3-30B's eight choices of 16 tokens, 41 if only three of them count.
TEST(BatchAware, ReadsAsManyExpertsAsPublished) {
  std::mt19937 random(2);
  constexpr int experts = 128, tokens = 16, rounds = 200;
  for (const int first : {1, 3, 5, 8}) {
    double read = 0;
    for (int round = 0; round < rounds; ++round) {
      const Recorded r = random_layer(random, 1, tokens, experts, 8, false);
      const Routed routed = route(fmt::format("{{kind: batch-aware, first: {}}}", first), r);
      read += static_cast<double>(experts_of(routed.rows, 0, tokens).size()) / rounds;
    }
    const double formula = experts * (1 - std::pow(1 - double{1} * first / experts, tokens));
    EXPECT_NEAR(read, formula, 0.02 * formula) << first;
  }
}

TEST(BatchAware, LeavesLargeBatchesAlone) {
  std::mt19937 random(3);
  const Recorded r = random_layer(random, 2, 48, 32, 4, true);
  EXPECT_EQ(route("{kind: batch-aware, budget: 8, most_tokens: 47}", r).rows, r.rows());
  EXPECT_EQ(
      experts_of(route("{kind: batch-aware, budget: 8, most_tokens: 48}", r).rows, 0, 96).size(),
      8u);
}

TEST(BatchAware, SaysWhatWouldFit) {
  std::mt19937 random(4);
  const Recorded r = random_layer(random, 2, 4, 16, 4, false);
  const auto message = [&](const std::string& rule) { return error_of([&] { route(rule, r); }); };
  EXPECT_THAT(message("{kind: batch-aware, first: 5}"), testing::HasSubstr("at most 4"));
  EXPECT_THAT(message("{kind: batch-aware, budget: 3}"), testing::HasSubstr("not within 4..16"));
  EXPECT_THAT(message("{kind: batch-aware, budget: 17}"), testing::HasSubstr("not within 4..16"));
}

}  // namespace
}  // namespace moesim
