// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/sem_moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr GpuId unknown(-1);
constexpr int max_rounds = 100;

using Counts = std::vector<std::int64_t>;

/// Choices per token id.
Counts frequencies(const TokenProfile& profile) {
  Counts sums;
  for (const auto& row : profile) {
    sums.push_back(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
  }
  return sums;
}

/// Choices of a token id for the experts of each cluster.
Counts pulls(const Counts& row, const std::vector<GpuId>& of_expert, int gpus) {
  Counts sums(static_cast<std::size_t>(gpus));
  for (std::size_t e = 0; e < row.size(); ++e) sums[of_expert[e].index()] += row[e];
  return sums;
}

/// Every token id of the profile to the cluster it favours most, as far as there is room.
std::vector<GpuId> assign_tokens(const TokenProfile& profile, const Counts& frequency,
                                 const std::vector<GpuId>& of_expert, int gpus, double slack) {
  std::vector<std::size_t> order(profile.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return frequency[a] > frequency[b]; });
  const auto total = std::accumulate(frequency.begin(), frequency.end(), std::int64_t{0});
  const double room = (1 + slack) * static_cast<double>(total) / gpus;
  Counts held(static_cast<std::size_t>(gpus));
  std::vector<GpuId> of_token(profile.size(), unknown);
  for (const std::size_t token : order) {
    if (frequency[token] == 0) continue;
    const Counts pull = pulls(profile[token], of_expert, gpus);
    std::size_t best = held.size();
    for (std::size_t g = 0; g < held.size(); ++g) {
      if (static_cast<double>(held[g] + frequency[token]) > room) continue;
      if (best == held.size() || pull[g] > pull[best]) best = g;
    }
    if (best == held.size()) {  // it fits nowhere
      best = static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
    }
    held[best] += frequency[token];
    of_token[token] = GpuId(static_cast<std::int64_t>(best));
  }
  return of_token;
}

/// Swaps experts of different clusters, each with its best partner, while LAR rises.
void swap_experts(const TokenProfile& profile, CoClusters& clusters, int gpus) {
  const std::size_t experts = clusters.of_expert.size();
  std::vector<Counts> pull(experts, Counts(static_cast<std::size_t>(gpus)));
  for (std::size_t t = 0; t < profile.size(); ++t) {
    if (clusters.of_token[t] == unknown) continue;
    const std::size_t gpu = clusters.of_token[t].index();
    for (std::size_t e = 0; e < experts; ++e) pull[e][gpu] += profile[t][e];
  }
  for (bool better = true; better;) {
    better = false;
    for (std::size_t a = 0; a < experts; ++a) {
      std::int64_t most = 0;
      std::size_t with = a;
      for (std::size_t b = 0; b < experts; ++b) {
        const std::size_t p = clusters.of_expert[a].index(), q = clusters.of_expert[b].index();
        const std::int64_t gain = pull[a][q] - pull[a][p] + pull[b][p] - pull[b][q];
        if (gain > most) most = gain, with = b;
      }
      if (with == a) continue;
      std::swap(clusters.of_expert[a], clusters.of_expert[with]);
      better = true;
    }
  }
}

}  // namespace

void add_to_profile(TokenProfile& profile, const IdRows& ids, std::span<const int> token_ids) {
  if (static_cast<std::int64_t>(token_ids.size()) != ids.tokens()) {
    throw Error(fmt::format("{} token ids for {} tokens", token_ids.size(), ids.tokens()));
  }
  for (std::int64_t t = 0; t < ids.tokens(); ++t) {
    const int token = token_ids[static_cast<std::size_t>(t)];
    for (int k = 0; k < ids.top_k(); ++k) {
      const auto expert = static_cast<std::size_t>(ids.at(t, k));
      if (token < 0 || static_cast<std::size_t>(token) >= profile.size() ||
          expert >= profile[static_cast<std::size_t>(token)].size()) {
        throw Error(
            fmt::format("token id {} or expert {} lies outside the profile", token, expert));
      }
      ++profile[static_cast<std::size_t>(token)][expert];
    }
  }
}

double local_activation_rate(const TokenProfile& profile, const CoClusters& clusters) {
  std::int64_t local = 0, total = 0;
  for (std::size_t t = 0; t < profile.size(); ++t) {
    for (std::size_t e = 0; e < profile[t].size(); ++e) {
      total += profile[t][e];
      if (clusters.of_token[t] == clusters.of_expert[e]) local += profile[t][e];
    }
  }
  return total == 0 ? 0 : static_cast<double>(local) / static_cast<double>(total);
}

CoClusters co_cluster(const TokenProfile& profile, int gpus, double slack) {
  const int experts = profile.empty() ? 0 : static_cast<int>(profile.front().size());
  if (gpus < 1 || experts < 1 || experts % gpus != 0) {
    throw Error(fmt::format("{} experts cannot lie in equal numbers on {} GPUs", experts, gpus));
  }
  const Counts frequency = frequencies(profile);
  CoClusters clusters;
  for (int e = 0; e < experts; ++e) clusters.of_expert.emplace_back(e / (experts / gpus));
  CoClusters best;
  double most = -1;
  for (int round = 0; round < max_rounds; ++round) {
    clusters.of_token = assign_tokens(profile, frequency, clusters.of_expert, gpus, slack);
    swap_experts(profile, clusters, gpus);
    const double rate = local_activation_rate(profile, clusters);
    if (rate <= most) break;
    most = rate;
    best = clusters;
  }
  return best;
}

std::vector<GpuId> place_requests(const std::vector<std::vector<double>>& favour, int gpus) {
  const auto n = static_cast<std::size_t>(gpus);
  std::vector<GpuId> gpu_of(favour.size(), unknown);
  for (std::size_t first = 0; first < favour.size(); first += n) {
    const std::size_t last = std::min(first + n, favour.size());
    std::vector<bool> taken(n);
    for (std::size_t placed = first; placed < last; ++placed) {
      std::size_t request = last, gpu = n;
      for (std::size_t r = first; r < last; ++r) {
        for (std::size_t g = 0; g < n; ++g) {
          if (gpu_of[r] != unknown || taken[g]) continue;
          if (request == last || favour[r][g] > favour[request][gpu]) request = r, gpu = g;
        }
      }
      gpu_of[request] = GpuId(static_cast<std::int64_t>(gpu));
      taken[gpu] = true;
    }
  }
  return gpu_of;
}

}  // namespace moesim
