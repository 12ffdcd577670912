// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/clustering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/error.h"
#include "sim/mechanism/placement/affinity/symmetric_eigen.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

constexpr int max_iterations = 100;

Points plus_plus_seeds(const Points& points, int clusters, Random& random) {
  Points seeds = {points[random.below(static_cast<std::uint32_t>(points.size()))]};
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  while (static_cast<int>(seeds.size()) < clusters) {
    double sum = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      nearest[i] = std::min(nearest[i], squared_distance(points[i], seeds.back()));
      sum += nearest[i];
    }
    double rest = random.uniform() * sum;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (nearest[i] == 0 && sum > 0) continue;  // already a seed
      chosen = i;
      rest -= nearest[i];
      if (rest < 0) break;
    }
    seeds.push_back(points[chosen]);
  }
  return seeds;
}

int nearest_centre(const std::vector<double>& point, const Points& centres) {
  std::size_t best = 0;
  double least = squared_distance(point, centres[0]);
  for (std::size_t c = 1; c < centres.size(); ++c) {
    const double distance = squared_distance(point, centres[c]);
    if (distance < least) least = distance, best = c;
  }
  return static_cast<int>(best);
}

/// Gives every empty cluster the point that is farthest from its centre in a cluster of several;
/// centres stay where they are.
void fill_empty(const Points& points, Clustering& result) {
  std::vector<int> sizes(result.centres.size());
  for (const int c : result.cluster_of) ++sizes[c];
  for (std::size_t empty = 0; empty < sizes.size(); ++empty) {
    if (sizes[empty] > 0) continue;
    std::size_t farthest = 0;
    double most = -1;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto c = static_cast<std::size_t>(result.cluster_of[i]);
      const double distance = squared_distance(points[i], result.centres[c]);
      if (sizes[c] > 1 && distance > most) most = distance, farthest = i;
    }
    --sizes[result.cluster_of[farthest]];
    ++sizes[empty];
    result.cluster_of[farthest] = static_cast<int>(empty);
  }
}

void move_centres(const Points& points, Clustering& result) {
  std::vector<int> sizes(result.centres.size());
  for (auto& centre : result.centres) std::fill(centre.begin(), centre.end(), 0.0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto c = static_cast<std::size_t>(result.cluster_of[i]);
    ++sizes[c];
    for (std::size_t d = 0; d < points[i].size(); ++d) result.centres[c][d] += points[i][d];
  }
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    for (double& x : result.centres[c]) x /= sizes[c];
  }
}

Clustering lloyd(const Points& points, Points seeds) {
  Clustering result{.cluster_of = std::vector<int>(points.size(), -1), .centres = std::move(seeds)};
  for (int i = 0; i < max_iterations; ++i) {
    const std::vector<int> before = result.cluster_of;
    for (std::size_t p = 0; p < points.size(); ++p) {
      result.cluster_of[p] = nearest_centre(points[p], result.centres);
    }
    fill_empty(points, result);
    move_centres(points, result);
    if (result.cluster_of == before) break;
  }
  return result;
}

double inertia(const Points& points, const Clustering& result) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto c = static_cast<std::size_t>(result.cluster_of[i]);
    sum += squared_distance(points[i], result.centres[c]);
  }
  return sum;
}

}  // namespace

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

Clustering k_means(const Points& points, int clusters, std::uint64_t seed, int starts) {
  if (clusters < 1 || static_cast<std::size_t>(clusters) > points.size() || starts < 1) {
    throw Error(fmt::format("{} clusters of {} points", clusters, points.size()));
  }
  Clustering best;
  double least = std::numeric_limits<double>::infinity();
  for (int start = 0; start < starts; ++start) {
    Random random(seed, static_cast<std::uint64_t>(start));
    Clustering result = lloyd(points, plus_plus_seeds(points, clusters, random));
    const double sum = inertia(points, result);
    if (sum < least || best.centres.empty()) least = sum, best = std::move(result);
  }
  return best;
}

std::vector<int> spectral_clusters(const PairMatrix& affinity, int clusters, std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(affinity.experts());
  if (clusters == 1 && n > 0) return std::vector<int>(n);
  std::vector<double> root(n);  // square roots of the degrees
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = affinity.row(ExpertId(static_cast<std::int64_t>(i)));
    std::int64_t degree = 0;
    for (std::size_t j = 0; j < n; ++j) degree += j == i ? 0 : row[j];
    root[i] = std::sqrt(static_cast<double>(degree));
  }
  SquareMatrix normal(affinity.experts());
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = affinity.row(ExpertId(static_cast<std::int64_t>(i)));
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j && row[j] > 0) normal.at(i, j) = static_cast<double>(row[j]) / (root[i] * root[j]);
    }
  }
  const Eigensystem eigen = symmetric_eigen(std::move(normal));
  Points points(n);
  for (std::size_t i = 0; i < n; ++i) {
    double square = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(clusters); ++c) {
      points[i].push_back(root[i] > 0 ? eigen.vectors.at(c, i) : 0);
      square += points[i].back() * points[i].back();
    }
    for (double& x : points[i]) x = square > 0 ? x / std::sqrt(square) : 0;
  }
  return k_means(points, clusters, seed).cluster_of;
}

}  // namespace moesim
