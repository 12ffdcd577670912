// SPDX-License-Identifier: Apache-2.0
// LLEP's chunks and copies by predicted load against their words spelled out, on small cases with
// ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/mechanism/placement/serving/llep.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using Counts = std::vector<std::int64_t>;

std::size_t some(Random& random, std::size_t n) {
  return random.below(static_cast<std::uint32_t>(n));
}

llep::Plan dealt_plainly(const Counts& counts, int gpus, const llep::Parameters& parameters) {
  const auto experts = static_cast<int>(counts.size());
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const double mean = std::floor(static_cast<double>(total) / gpus);
  llep::Plan plan;
  plan.capacity = mean == 0 ? total : static_cast<std::int64_t>(parameters.alpha * mean);
  if (plan.capacity == 0) plan.capacity = 1;
  plan.chunks.resize(counts.size());
  plan.loads.resize(static_cast<std::size_t>(gpus));
  std::vector<bool> begun(counts.size());
  const auto load = [&](GpuId gpu) {
    std::int64_t sum = plan.loads[gpu.index()];
    for (int e = 0; e < experts; ++e) {
      const auto i = static_cast<std::size_t>(e);
      if (!begun[i] && llep::owner(ExpertId(e), experts, gpus) == gpu) sum += counts[i];
    }
    return sum;
  };
  while (true) {
    ExpertId e(-1);
    for (int other = 0; other < experts; ++other) {
      const auto i = static_cast<std::size_t>(other);
      if (begun[i] || counts[i] == 0) continue;
      if (e.value < 0 || counts[i] > counts[e.index()]) e = ExpertId(other);
    }
    if (e.value < 0) return plan;
    begun[e.index()] = true;
    const GpuId own = llep::owner(e, experts, gpus);
    std::int64_t given = 0;
    const std::int64_t count = counts[e.index()];
    const auto give = [&](GpuId gpu, std::int64_t n) {
      plan.chunks[e.index()].push_back({gpu, given, given + n});
      plan.loads[gpu.index()] += n;
      given += n;
      if (gpu != own) plan.transfers.push_back({e, own, gpu});
    };
    const std::int64_t kept = gpus == 1 ? count : std::min(count, plan.capacity - load(own));
    if (kept > 0) give(own, kept);
    std::vector<std::pair<std::int64_t, GpuId>> order;
    const auto look = [&] {
      order.clear();
      for (int g = 0; g < gpus; ++g) {
        if (GpuId(g) != own) order.emplace_back(load(GpuId(g)), GpuId(g));
      }
      std::sort(order.begin(), order.end());
    };
    look();
    while (given < count) {
      const auto worth = [&](GpuId gpu) {
        const std::int64_t rest = count - given, n = std::min(rest, plan.capacity - load(gpu));
        return n == rest || n >= parameters.least_chunk ? n : 0;
      };
      const auto taker =
          std::ranges::find_if(order, [&](const auto& o) { return worth(o.second) > 0; });
      if (taker == order.end()) {
        give(order.front().second, count - given);
      } else {
        give(taker->second, worth(taker->second));
      }
      if (kept > 0) look();
    }
  }
}

TEST(ServingWords, LlepDealsExpertByExpert) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed, 1);
    const int gpus = 1 + static_cast<int>(some(random, 4));
    Counts counts(static_cast<std::size_t>(gpus) * (1 + some(random, 3)));
    for (auto& count : counts) count = random.below(some(random, 2) == 0 ? 3 : 12);
    const double alphas[] = {0.5, 1, 1.1, 1.5};
    const llep::Parameters parameters{alphas[some(random, 4)], 1 + random.below(5)};
    const llep::Plan found = llep::plan(counts, gpus, parameters);
    const llep::Plan expected = dealt_plainly(counts, gpus, parameters);
    ASSERT_EQ(found.capacity, expected.capacity) << seed;
    ASSERT_EQ(found.chunks, expected.chunks) << seed;
    ASSERT_EQ(found.loads, expected.loads) << seed;
    ASSERT_EQ(found.transfers, expected.transfers) << seed;
  }
}

TEST(ServingWords, LlepTakesTheTotalWhereTheMeanIsNone) {
  EXPECT_EQ(llep::plan(Counts{3, 0, 0, 0}, 4, {}).capacity, 3);
  EXPECT_EQ(llep::plan(Counts{0, 0}, 2, {}).capacity, 1);
  EXPECT_EQ(llep::plan(Counts{4, 0}, 2, {1, 1}).capacity, 2);
  EXPECT_FALSE(llep::applies(Counts{0, 0}, 2, 0));
  const std::string hint = "hint: the GPUs must divide the experts\n";
  EXPECT_EQ(error_of([] { llep::plan(Counts{1}, 0, {}); }),
            "error: LLEP cannot spread 1 experts over 0 GPUs\n" + hint);
  EXPECT_EQ(error_of([] { llep::plan(Counts{}, 1, {}); }),
            "error: LLEP cannot spread 0 experts over 1 GPUs\n" + hint);
}

/// Loads are multiples of 12, so that shares of up to four copies are whole.
prediction::Copies copied_plainly(const std::vector<double>& loads, const SlotTable& base,
                                  const SlotTable& current, std::size_t extra) {
  const std::size_t gpus = base.size(), experts = loads.size();
  prediction::Copies result;
  result.extra.resize(gpus);
  const auto holds = [&](std::size_t g, ExpertId e) {
    return std::ranges::count(base[g], e) + std::ranges::count(result.extra[g], e) > 0;
  };
  const auto copies = [&](ExpertId e) {
    double n = 0;
    for (std::size_t g = 0; g < gpus; ++g) n += holds(g, e);
    return n;
  };
  const auto gpu_load = [&](std::size_t g) {
    double sum = 0;
    for (std::size_t e = 0; e < experts; ++e) {
      const ExpertId expert(static_cast<std::int64_t>(e));
      if (holds(g, expert)) sum += loads[e] / copies(expert);
    }
    return sum;
  };
  const auto largest = [&] {
    double most = 0;
    for (std::size_t g = 0; g < gpus; ++g) most = std::max(most, gpu_load(g));
    return most;
  };
  const auto add = [&](ExpertId e, std::size_t g) {
    if (gpu_load(g) + loads[e.index()] / (copies(e) + 1) > largest()) return false;
    result.extra[g].push_back(e);
    return true;
  };
  const auto free = [&](std::size_t g, ExpertId e) {
    return result.extra[g].size() < extra && !holds(g, e);
  };
  std::vector<double> wanted(experts);
  for (std::size_t slot = 0; slot < gpus * extra; ++slot) {
    std::size_t next = experts;
    const auto share = [&](std::size_t e) {
      return loads[e] / (copies(ExpertId(static_cast<std::int64_t>(e))) + wanted[e]);
    };
    for (std::size_t e = 0; e < experts; ++e) {
      if (copies(ExpertId(static_cast<std::int64_t>(e))) + wanted[e] == static_cast<double>(gpus))
        continue;
      if (next == experts || share(e) > share(next)) next = e;
    }
    if (next == experts) break;
    ++wanted[next];
  }
  std::vector<std::pair<double, ExpertId>> order;
  for (std::size_t e = 0; e < experts; ++e) {
    const ExpertId expert(static_cast<std::int64_t>(e));
    for (double n = 0; n < wanted[e]; ++n) {
      order.emplace_back(-loads[e] / (copies(expert) + wanted[e]), expert);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<ExpertId> fresh;
  for (const auto& [share, e] : order) {
    bool kept = false;
    for (std::size_t g = 0; g < current.size() && !kept; ++g) {
      kept = std::ranges::count(current[g], e) > 0 && free(g, e) && add(e, g);
    }
    if (!kept) fresh.push_back(e);
  }
  for (const ExpertId e : fresh) {
    std::size_t lightest = gpus;
    for (std::size_t g = 0; g < gpus; ++g) {
      if (free(g, e) && (lightest == gpus || gpu_load(g) < gpu_load(lightest))) lightest = g;
    }
    if (lightest == gpus || !add(e, lightest)) result.dropped.push_back(e);
  }
  for (std::size_t g = 0; g < gpus; ++g) result.gpu_loads.push_back(gpu_load(g));
  return result;
}

TEST(ServingWords, PredictedCopiesGoOneAfterTheOther) {
  int dropped = 0, kept = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed, 2);
    const std::size_t gpus = 1 + some(random, 4), experts = 1 + some(random, 6),
                      extra = some(random, 3);
    SlotTable base(gpus), current(some(random, 2) == 0 ? 0 : gpus);
    std::vector<double> loads;
    for (std::size_t e = 0; e < experts; ++e) {
      loads.push_back(12.0 * random.below(4));
      base[some(random, gpus)].emplace_back(static_cast<std::int64_t>(e));
    }
    for (auto& slots : current) {
      for (std::size_t s = 0; s < extra; ++s)
        slots.emplace_back(static_cast<std::int64_t>(some(random, experts)));
    }
    const auto found = prediction::replicate(loads, base, current, static_cast<int>(extra));
    const auto expected = copied_plainly(loads, base, current, extra);
    ASSERT_EQ(found.extra, expected.extra) << seed;
    ASSERT_EQ(found.dropped, expected.dropped) << seed;
    ASSERT_EQ(found.gpu_loads, expected.gpu_loads) << seed;
    dropped += !found.dropped.empty();
    kept += !current.empty() &&
            found.extra != prediction::replicate(loads, base, {}, static_cast<int>(extra)).extra;
  }
  EXPECT_GT(dropped, 20);
  EXPECT_GT(kept, 20);
}

}  // namespace
}  // namespace moesim
