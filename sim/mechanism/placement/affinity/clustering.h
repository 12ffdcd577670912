// SPDX-License-Identifier: Apache-2.0
// Seeded clustering of experts: K-means++ on points, spectral clustering of affinities.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"

namespace moesim {

/// Points of one dimension each, row by row.
using Points = std::vector<std::vector<double>>;

/// The cluster of every point and the clusters' centres.
struct Clustering {
  std::vector<int> cluster_of;
  Points centres;
};

/// Squared Euclidean distance.
double squared_distance(const std::vector<double>& a, const std::vector<double>& b);

/// Lloyd's iterations from K-means++ seeds (Arthur and Vassilvitskii, SODA 2007), the best of
/// `starts` by sum of squared distances. A cluster that runs empty takes the point farthest from
/// its centre; ties go to the lowest cluster. Throws Error unless 1 <= clusters <= points.
Clustering k_means(const Points& points, int clusters, std::uint64_t seed, int starts = 8);

/// Clusters of a symmetric affinity: rows of the first eigenvectors of D^-1/2 A D^-1/2, scaled to
/// length 1, then K-means (Ng, Jordan and Weiss, NIPS 2001). The diagonal of `affinity` does not
/// count; experts without any affinity are together at the origin.
std::vector<int> spectral_clusters(const PairMatrix& affinity, int clusters, std::uint64_t seed);

}  // namespace moesim
