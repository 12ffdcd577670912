// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/serving/lina.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.h"

namespace moesim::lina {
namespace {

constexpr double rounding = 1e-9;  // of shares that ought to sum to 1

/// Experts by value, descending, then by id.
std::vector<ExpertId> descending(std::span<const double> values) {
  std::vector<ExpertId> order;
  for (std::size_t e = 0; e < values.size(); ++e) order.emplace_back(static_cast<std::int64_t>(e));
  std::stable_sort(order.begin(), order.end(),
                   [&](ExpertId a, ExpertId b) { return values[a.index()] > values[b.index()]; });
  return order;
}

bool is_large(double share) { return share >= 1 - rounding; }

/// Devices and how full they are.
struct Bins {
  SlotTable experts;
  std::vector<double> filled;

  void open(ExpertId expert, double share) {
    experts.push_back({expert});
    filled.push_back(share);
  }
  void put(std::size_t bin, ExpertId expert, double share) {
    experts[bin].push_back(expert);
    filled[bin] += share;
  }
  std::size_t least_filled() const {
    return static_cast<std::size_t>(std::min_element(filled.begin(), filled.end()) -
                                    filled.begin());
  }
};

/// First-fit decreasing of the experts worth less than a device into bins `first`.. of at most
/// `most` in all.
void pack_small(Bins& bins, std::span<const double> shares, std::size_t most) {
  const std::size_t first = bins.experts.size();
  for (const ExpertId expert : descending(shares)) {
    const double share = shares[expert.index()];
    if (is_large(share)) continue;
    std::size_t bin = first;
    while (bin < bins.filled.size() && bins.filled[bin] + share > 1 + rounding) ++bin;
    if (bin < bins.filled.size()) {
      bins.put(bin, expert, share);
    } else if (bins.filled.size() < most) {
      bins.open(expert, share);
    } else {
      bins.put(bins.least_filled(), expert, share);
    }
  }
}

/// Copies of experts worth a device or more: rounded, fewer where they leave no room for the
/// others.
std::vector<int> large_copies(std::span<const double> shares, int devices) {
  Bins small;
  pack_small(small, shares, shares.size());
  std::vector<int> copies(shares.size());
  for (std::size_t e = 0; e < shares.size(); ++e) {
    if (is_large(shares[e])) copies[e] = static_cast<int>(std::lround(shares[e]));
  }
  int excess = std::accumulate(copies.begin(), copies.end(), 0) +
               static_cast<int>(small.experts.size()) - devices;
  for (; excess > 0; --excess) {
    std::size_t best = shares.size();
    for (std::size_t e = 0; e < shares.size(); ++e) {
      if (copies[e] < 2) continue;
      if (best == shares.size() || copies[e] - shares[e] > copies[best] - shares[best]) best = e;
    }
    if (best == shares.size()) break;
    --copies[best];
  }
  return copies;
}

/// The lowest expert with the largest share per copy.
std::size_t heaviest_copy(std::span<const double> shares, std::span<const int> copies) {
  std::size_t best = 0;
  for (std::size_t e = 1; e < shares.size(); ++e) {
    if (shares[e] / copies[e] > shares[best] / copies[best]) best = e;
  }
  return best;
}

}  // namespace

std::vector<double> device_shares(std::span<const double> loads, int devices) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  std::vector<double> shares(loads.size(), devices / static_cast<double>(loads.size()));
  for (std::size_t e = 0; sum > 0 && e < loads.size(); ++e) shares[e] = devices * loads[e] / sum;
  return shares;
}

SlotTable pack(std::span<const double> shares, int devices) {
  const auto large = std::count_if(shares.begin(), shares.end(), is_large);
  if (devices < 1 || shares.empty() || large > devices) {
    throw Error(fmt::format("Lina cannot pack {} experts, {} of them worth a device, on {} devices",
                            shares.size(), large, devices));
  }
  std::vector<int> copies = large_copies(shares, devices);
  Bins bins;
  for (std::size_t e = 0; e < shares.size(); ++e) {
    for (int copy = 0; copy < copies[e]; ++copy) {
      bins.open(ExpertId(static_cast<std::int64_t>(e)), shares[e] / copies[e]);
    }
  }
  pack_small(bins, shares, static_cast<std::size_t>(devices));
  for (int& count : copies) count = std::max(count, 1);
  while (bins.experts.size() < static_cast<std::size_t>(devices)) {
    const std::size_t e = heaviest_copy(shares, copies);
    ++copies[e];
    bins.open(ExpertId(static_cast<std::int64_t>(e)), 0);
  }
  return bins.experts;
}

bool prediction_holds(std::span<const double> predicted, std::span<const double> actual, int k) {
  const auto top = [&](std::span<const double> loads) {
    std::vector<ExpertId> order = descending(loads);
    order.resize(std::min(order.size(), 2 * static_cast<std::size_t>(k)));
    std::sort(order.begin(), order.end());
    return order;
  };
  return top(predicted) == top(actual);
}

}  // namespace moesim::lina
