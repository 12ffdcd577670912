// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/ordering.h"
#include "sim/mechanism/placement/affinity/clustering.h"

namespace moesim {
namespace {

/// Moves points between clusters until their sizes differ by at most one. Each move is the one that
/// adds least to the squared distance from the (fixed) centres, ties by lowest expert and cluster.
void equalise(const Points& points, Clustering& clusters) {
  const std::size_t count = clusters.centres.size(), floor = points.size() / count;
  std::vector<std::size_t> sizes(count);
  for (const int c : clusters.cluster_of) ++sizes[c];
  // As many clusters as there are left-over points may keep one more than the others.
  for (;;) {
    const auto largest = *std::max_element(sizes.begin(), sizes.end());
    const auto smallest = *std::min_element(sizes.begin(), sizes.end());
    if (largest - smallest <= 1) return;
    double least = std::numeric_limits<double>::infinity();
    std::size_t mover = 0, target = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto from = static_cast<std::size_t>(clusters.cluster_of[i]);
      if (sizes[from] <= std::max(floor, smallest + 1)) continue;
      for (std::size_t to = 0; to < count; ++to) {
        if (sizes[to] >= sizes[from] - 1 || sizes[to] > floor ||
            (sizes[to] == floor && smallest < floor)) {
          continue;
        }
        const double growth = squared_distance(points[i], clusters.centres[to]) -
                              squared_distance(points[i], clusters.centres[from]);
        if (growth < least) least = growth, mover = i, target = to;
      }
    }
    --sizes[clusters.cluster_of[mover]];
    ++sizes[target];
    clusters.cluster_of[mover] = static_cast<int>(target);
  }
}

}  // namespace

SquareMatrix co_choice_similarity(const PairMatrix& co) {
  const auto n = static_cast<std::size_t>(co.experts());
  SquareMatrix similarity(co.experts());
  const auto row = [&](std::size_t e) { return co.row(ExpertId(static_cast<std::int64_t>(e))); };
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += static_cast<double>(row(a)[i]) * static_cast<double>(row(b)[i]);
    }
    return sum;
  };
  std::vector<double> norm(n);
  for (std::size_t a = 0; a < n; ++a) norm[a] = std::sqrt(dot(a, a));
  for (std::size_t a = 0; a < n; ++a) {
    similarity.at(a, a) = 1;
    for (std::size_t b = a + 1; b < n; ++b) {
      const double both = norm[a] * norm[b];
      similarity.at(a, b) = similarity.at(b, a) = both > 0 ? dot(a, b) / both : 0;
    }
  }
  return similarity;
}

void update_similarity(SquareMatrix& similarity, const SquareMatrix& newest, double rate) {
  if (similarity.n != newest.n) {
    throw Error(fmt::format("similarities of {} and {} experts", similarity.n, newest.n));
  }
  for (std::size_t i = 0; i < similarity.values.size(); ++i) {
    similarity.values[i] = (1 - rate) * similarity.values[i] + rate * newest.values[i];
  }
}

SquareMatrix without_weak_pairs(SquareMatrix similarity, double floor) {
  for (double& s : similarity.values) s = s < floor ? 0 : s;
  return similarity;
}

std::vector<std::vector<ExpertId>> similar_groups(const SquareMatrix& similarity, int groups,
                                                  std::uint64_t seed) {
  const auto n = static_cast<std::size_t>(similarity.n);
  Points points(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) points[i][j] = 1 - similarity.at(i, j);
  }
  Clustering clusters = k_means(points, groups, seed);
  equalise(points, clusters);
  std::vector<std::vector<ExpertId>> members(groups);
  for (std::size_t i = 0; i < n; ++i) {
    members[clusters.cluster_of[i]].emplace_back(static_cast<std::int64_t>(i));
  }
  return members;
}

std::vector<int> place_groups(const std::vector<std::vector<ExpertId>>& groups,
                              std::span<const std::int64_t> loads, int parts) {
  if (parts < 1 || groups.size() % static_cast<std::size_t>(parts) != 0) {
    throw Error(
        fmt::format("{} groups cannot be placed in equal numbers on {}", groups.size(), parts));
  }
  std::vector<std::int64_t> load_of, sums(static_cast<std::size_t>(parts));
  for (const auto& group : groups) {
    std::int64_t sum = 0;
    for (const ExpertId e : group) sum += loads[e.index()];
    load_of.push_back(sum);
  }
  std::vector<std::size_t> room(sums.size(), groups.size() / sums.size());
  std::vector<int> part_of(groups.size());
  for (const std::size_t group : descending<std::size_t>(load_of)) {
    std::size_t least = sums.size();
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (room[p] > 0 && (least == sums.size() || sums[p] < sums[least])) least = p;
    }
    --room[least];
    sums[least] += load_of[group];
    part_of[group] = static_cast<int>(least);
  }
  return part_of;
}

}  // namespace moesim
