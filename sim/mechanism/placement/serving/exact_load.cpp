// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/exact_load.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/base/rounding.h"

namespace moesim::exact_load {
namespace {

using Counts = std::vector<std::int64_t>;

/// The first of the largest, or of the smallest.
std::size_t most_of(const Counts& of) {
  return static_cast<std::size_t>(std::ranges::max_element(of) - of.begin());
}
std::size_t least_of(const Counts& of) {
  return static_cast<std::size_t>(std::ranges::min_element(of) - of.begin());
}

std::vector<Counts> at_home(std::span<const std::int64_t> counts, int gpus) {
  const auto experts = static_cast<int>(counts.size());
  std::vector<Counts> parts(counts.size(), Counts(static_cast<std::size_t>(gpus)));
  for (int e = 0; e < experts; ++e) {
    const std::size_t home = llep::owner(ExpertId(e), experts, gpus).index();
    parts[static_cast<std::size_t>(e)][home] = counts[static_cast<std::size_t>(e)];
  }
  return parts;
}

Counts loads_of(const std::vector<Counts>& parts, int gpus) {
  Counts loads(static_cast<std::size_t>(gpus));
  for (const Counts& part : parts) {
    for (std::size_t g = 0; g < loads.size(); ++g) loads[g] += part[g];
  }
  return loads;
}

/// [home][gpu] token-slots that change hands, so that all have the same.
std::vector<Counts> hand_overs(Counts surplus) {
  std::vector<Counts> moves(surplus.size(), Counts(surplus.size()));
  for (std::size_t home = most_of(surplus); surplus[home] > 0; home = most_of(surplus)) {
    const std::size_t to = least_of(surplus);
    const std::int64_t room = -surplus[to];
    moves[home][to] += room;
    surplus[home] -= room;
    surplus[to] = 0;
  }
  return moves;
}

/// The experts of one domain, handed over until no GPU is above a limit.
class Exports {
 public:
  Exports(std::span<const std::int64_t> counts, int per_gpu, const Quota& quota)
      : counts_(counts), per_gpu_(static_cast<std::size_t>(per_gpu)), quota_(quota) {
    gpus_ = counts.size() / per_gpu_;
    loads_.resize(gpus_);
    for (std::size_t e = 0; e < counts.size(); ++e) loads_[e / per_gpu_] += counts[e];
  }

  /// [expert][gpu]
  std::vector<Counts> best() {
    const std::int64_t all = std::accumulate(loads_.begin(), loads_.end(), std::int64_t{0});
    const auto gpus = static_cast<std::int64_t>(gpus_);
    const std::int64_t mean = (all + gpus - 1) / gpus, most = *std::ranges::max_element(loads_);
    if (!meets_near(mean, most)) search(mean, most);
    return parts_;
  }

 private:
  bool meets_near(std::int64_t mean, std::int64_t most) {
    const auto above = quota_.tolerance * static_cast<double>(mean);
    std::int64_t limit = mean + rounded_up(above);
    for (int tries = 0; tries < 3; ++tries) {
      if (hand_over(limit, true)) return true;
      limit = std::min(most, limit + std::max<std::int64_t>(1, (most + 99) / 100));
    }
    return false;
  }

  /// As upstream in fifths: a limit may fail though a lower one is met.
  void search(std::int64_t low, std::int64_t high) {
    if (hand_over(low, false)) return;
    for (low = std::min(low + 1, high); low < high;) {
      const std::int64_t range = high - low, probes = std::min<std::int64_t>(range, 4);
      std::int64_t fails = low - 1;
      for (std::int64_t i = 0; i < probes; ++i) {
        const std::int64_t limit = low + (range > 4 ? range * (i + 1) / 5 : i);
        if (hand_over(limit, false)) {
          high = limit;
          break;
        }
        fails = limit;
      }
      low = fails + 1;
    }
    hand_over(high, false);
  }

  std::vector<Counts> parts() const { return at_home(counts_, static_cast<int>(gpus_)); }

  bool hand_over(std::int64_t limit, bool evenly) {
    evenly_ = evenly;
    parts_ = parts();
    room_.assign(gpus_, 0);
    slots_.assign(gpus_, quota_.slots);
    std::vector<std::size_t> homes(gpus_);
    std::iota(homes.begin(), homes.end(), std::size_t{0});
    std::ranges::stable_sort(homes, [&](auto a, auto b) { return loads_[a] > loads_[b]; });
    for (std::size_t g = 0; g < gpus_; ++g) {
      room_[g] = std::max<std::int64_t>(limit - loads_[g], 0);
    }
    return std::ranges::all_of(
        homes, [&](std::size_t home) { return relieve(home, loads_[home] - limit); });
  }

  bool relieve(std::size_t home, std::int64_t excess) {
    if (excess <= 0) return true;
    std::vector<std::size_t> experts(per_gpu_);
    std::iota(experts.begin(), experts.end(), home * per_gpu_);
    std::ranges::stable_sort(experts, [&](auto a, auto b) { return counts_[a] > counts_[b]; });
    for (const std::size_t expert : experts) {
      while (excess > 0) {
        const std::int64_t given = give(expert, home, excess);
        if (given == 0) break;
        excess -= given;
      }
    }
    return excess <= 0;
  }

  /// Token-slots that another GPU takes, or 0.
  std::int64_t give(std::size_t expert, std::size_t home, std::int64_t excess) {
    Counts& part = parts_[expert];
    const std::int64_t most = std::min(excess, part[home] - 1);
    std::vector<std::size_t> able;
    for (std::size_t g = 0; g < gpus_ && most > 0; ++g) {
      if (g != home && slots_[g] > 0 && part[g] == 0 && room_[g] > 0) able.push_back(g);
    }
    if (able.empty()) return 0;
    const auto takers = static_cast<std::int64_t>(able.size());
    const std::int64_t least =
        evenly_ ? (excess + takers - 1) / takers : std::max<std::int64_t>(1, quota_.least);
    // The first of the roomiest: who has less room takes no more.
    const std::size_t best = *std::ranges::max_element(able, {}, [&](auto g) { return room_[g]; });
    const std::int64_t given = std::min(most, room_[best]);
    if (given < least) return 0;
    part[home] -= given;
    part[best] = given;
    room_[best] -= given;
    --slots_[best];
    return given;
  }

  std::span<const std::int64_t> counts_;
  std::size_t per_gpu_, gpus_ = 0;
  Quota quota_;
  Counts loads_, room_;
  std::vector<int> slots_;
  std::vector<Counts> parts_;
  bool evenly_ = false;
};

}  // namespace

llep::Plan plan_from(const std::vector<Counts>& parts, int gpus, bool owner_first) {
  const auto experts = static_cast<int>(parts.size());
  llep::Plan plan;
  plan.chunks.resize(parts.size());
  plan.loads.resize(static_cast<std::size_t>(gpus));
  for (int e = 0; e < experts; ++e) {
    const Counts& of_gpu = parts[static_cast<std::size_t>(e)];
    const GpuId owner = llep::owner(ExpertId(e), experts, gpus);
    std::int64_t dealt = 0;
    const auto give = [&](GpuId gpu) {
      const std::int64_t count = of_gpu[gpu.index()];
      if (count == 0) return;
      plan.chunks[static_cast<std::size_t>(e)].push_back({gpu, dealt, dealt + count});
      plan.loads[gpu.index()] += count;
      dealt += count;
      if (gpu != owner) plan.transfers.push_back({ExpertId(e), owner, gpu});
    };
    if (owner_first) give(owner);
    for (int g = 0; g < gpus; ++g) {
      if (!owner_first || GpuId(g) != owner) give(GpuId(g));
    }
  }
  plan.capacity = *std::ranges::max_element(plan.loads);
  return plan;
}

llep::Plan moon_ep(std::span<const std::int64_t> counts, int gpus) {
  llep::applies(counts, gpus, 0);  // throws for counts that cannot be spread
  std::vector<Counts> parts = at_home(counts, gpus);
  Counts surplus = loads_of(parts, gpus);
  const std::int64_t all = std::accumulate(surplus.begin(), surplus.end(), std::int64_t{0});
  for (int g = 0; g < gpus; ++g) {
    surplus[static_cast<std::size_t>(g)] -= all / gpus + (g < all % gpus ? 1 : 0);
  }
  const std::size_t per_gpu = counts.size() / static_cast<std::size_t>(gpus);
  std::vector<Counts> moves = hand_overs(std::move(surplus));
  for (std::size_t home = 0; home < moves.size(); ++home) {
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(home * per_gpu);
    Counts left(first, first + static_cast<std::ptrdiff_t>(per_gpu));
    Counts& quotas = moves[home];
    for (std::size_t to = most_of(quotas); quotas[to] > 0; to = most_of(quotas)) {
      const std::size_t local = most_of(left);
      const std::int64_t taken = std::min(left[local], quotas[to]);
      Counts& part = parts[home * per_gpu + local];
      part[to] += taken;
      part[home] -= taken;
      left[local] -= taken;
      quotas[to] -= taken;
    }
  }
  return plan_from(parts, gpus, false);
}

llep::Plan ultra_ep(std::span<const std::int64_t> counts, int gpus, int domain,
                    const Quota& quota) {
  llep::applies(counts, gpus, 0);
  const std::size_t per_gpu = counts.size() / static_cast<std::size_t>(gpus);
  const auto of_domain = static_cast<std::size_t>(domain) * per_gpu;
  std::vector<Counts> parts(counts.size(), Counts(static_cast<std::size_t>(gpus)));
  for (std::size_t first = 0; first < counts.size(); first += of_domain) {
    const auto part =
        Exports(counts.subspan(first, of_domain), static_cast<int>(per_gpu), quota).best();
    for (std::size_t e = 0; e < of_domain; ++e) {
      std::ranges::copy(part[e],
                        parts[first + e].begin() + static_cast<std::ptrdiff_t>(first / per_gpu));
    }
  }
  return plan_from(parts, gpus, true);
}

llep::Plan feplb(std::span<const std::int64_t> counts, int gpus, int domain, int dynamic) {
  llep::applies(counts, gpus, 0);
  const std::size_t per_gpu = counts.size() / static_cast<std::size_t>(gpus);
  std::vector<Counts> parts = at_home(counts, gpus);
  for (std::size_t first = 0; first < static_cast<std::size_t>(gpus);
       first += static_cast<std::size_t>(domain)) {
    const std::size_t last = first + static_cast<std::size_t>(domain);
    Counts loads(last - first);
    std::vector<std::size_t> moving;
    for (std::size_t home = first; home < last; ++home) {
      std::vector<std::size_t> own(per_gpu);
      std::iota(own.begin(), own.end(), home * per_gpu);
      std::ranges::stable_sort(own, [&](auto a, auto b) { return counts[a] > counts[b]; });
      for (std::size_t i = 0; i < per_gpu; ++i) {
        if (static_cast<int>(i) < dynamic) {
          moving.push_back(own[i]);
        } else {
          loads[home - first] += counts[own[i]];
        }
      }
    }
    Counts before = loads;
    for (const std::size_t e : moving) before[e / per_gpu - first] += counts[e];
    std::ranges::stable_sort(moving, [&](auto a, auto b) { return counts[a] > counts[b]; });
    std::vector<std::size_t> to;
    for (const std::size_t e : moving) {
      const std::size_t home = e / per_gpu - first, least = least_of(loads);
      to.push_back(loads[home] == loads[least] ? home : least);
      loads[to.back()] += counts[e];
    }
    if (std::ranges::max(loads) >= std::ranges::max(before)) continue;
    for (std::size_t i = 0; i < moving.size(); ++i) {
      Counts& part = parts[moving[i]];
      std::swap(part[moving[i] / per_gpu], part[first + to[i]]);
    }
  }
  return plan_from(parts, gpus, true);
}

}  // namespace moesim::exact_load
