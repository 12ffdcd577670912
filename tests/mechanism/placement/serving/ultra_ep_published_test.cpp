// SPDX-License-Identifier: Apache-2.0
// UltraEP's README at 94cab099: EP 64 in one NVLink domain, 256 experts, 4 + 2 slots per rank, top
// 8, 8,192 tokens per rank. Its loads are Zipf's over ranks, and over the experts of a rank with
// exponent 4; the former exponent is set by the imbalance that is asked for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

#include "sim/base/data_files.h"
#include "sim/mechanism/placement/serving/exact_load.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

constexpr int zipf_ranks = 64, rank_owns = 4, zipf_top_k = 8;
constexpr double all_tokens = 64 * 8192;

/// Choices of every expert, if a token takes eight different ones by weight: the chance that an
/// expert of weight w is taken is 1 - exp(-c w), with c such that eight are.
std::vector<std::int64_t> zipf_loads(double exponent) {
  std::vector<double> weights;
  for (int r = 1; r <= zipf_ranks; ++r) {
    for (int e = 1; e <= rank_owns; ++e)
      weights.push_back(std::pow(r, -exponent) * std::pow(e, -4));
  }
  const auto taken = [&](double c) {
    double sum = 0;
    for (const double w : weights) sum += 1 - std::exp(-c * w);
    return sum;
  };
  double low = 0, high = 1;
  while (taken(high) < zipf_top_k) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (taken(middle) < zipf_top_k ? low : high) = middle;
  }
  std::vector<std::int64_t> loads;
  for (const double w : weights)
    loads.push_back(std::llround(all_tokens * (1 - std::exp(-high * w))));
  return loads;
}

double max_over_mean(const std::vector<std::int64_t>& loads) {
  const auto sum = static_cast<double>(std::reduce(loads.begin(), loads.end()));
  return static_cast<double>(std::ranges::max(loads)) * static_cast<double>(loads.size()) / sum;
}

/// Of the ranks, before anything moves.
double imbalance(const std::vector<std::int64_t>& loads) {
  std::vector<std::int64_t> of_rank(zipf_ranks);
  for (std::size_t e = 0; e < loads.size(); ++e) of_rank[e / rank_owns] += loads[e];
  return max_over_mean(of_rank);
}

std::vector<std::int64_t> loads_with(double wanted) {
  double low = 0, high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (imbalance(zipf_loads(middle)) < wanted ? low : high) = middle;
  }
  return zipf_loads(high);
}

TEST(UltraEpPublished, BalancesToOnePercentWithItsReplicas) {
  struct Row {
    double before;
    int replicas, of_one;  // all, and of the expert with the most
  };
  for (const Row& row : {Row{1.51, 38, 4}, Row{2.01, 46, 5}, Row{3.03, 51, 6}}) {
    const auto loads = loads_with(row.before);
    EXPECT_NEAR(imbalance(loads), row.before, 0.005);
    const llep::Plan plan = exact_load::ultra_ep(loads, zipf_ranks, zipf_ranks, {});
    std::vector<int> copies(loads.size());
    for (const WeightMove& move : plan.transfers) ++copies[move.expert.index()];
    const int all = std::reduce(copies.begin(), copies.end());
    std::fputs(fmt::format("{:.2f} becomes {:.4f} (published 1.01), {} replicas ({}), at most {} "
                           "of an expert ({})\n",
                           row.before, max_over_mean(plan.loads), all, row.replicas,
                           std::ranges::max(copies), row.of_one)
                   .c_str(),
               stdout);
    EXPECT_LE(max_over_mean(plan.loads), 1.015);
    EXPECT_NEAR(all, row.replicas, 5);
    EXPECT_NEAR(std::ranges::max(copies), row.of_one, 1);
  }
}

}  // namespace
}  // namespace moesim
