// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/flash_lb.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/ordering.h"
#include "sim/mechanism/placement/serving/best_pairs.h"
#include "sim/mechanism/placement/serving/vllm.h"

namespace moesim::flash_lb {
namespace {

constexpr double quartile = 0.6744897501960817;  // of the normal distribution, 75 %
constexpr std::size_t groups_of_experts = 4;
constexpr int tried_around = 8;
constexpr std::size_t most_samples = 64;

using Copies = std::vector<int>;

/// Means of experts and how they vary together, over the steps.
struct LoadStatistics {
  explicit LoadStatistics(const StepLoads& loads) : mean(loads.front().size()) {
    const auto steps = static_cast<double>(loads.size());
    for (const auto& step : loads) {
      for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += step[e] / steps;
    }
    covariance.assign(mean.size(), std::vector<double>(mean.size()));
    if (loads.size() < 2) return;
    for (const auto& step : loads) {
      for (std::size_t e = 0; e < mean.size(); ++e) {
        const double off = (step[e] - mean[e]) / (steps - 1);
        for (std::size_t f = 0; f < mean.size(); ++f) covariance[e][f] += off * (step[f] - mean[f]);
      }
    }
  }
  double risk(std::size_t e) const { return mean[e] + quartile * std::sqrt(covariance[e][e]); }

  std::vector<double> mean;
  std::vector<std::vector<double>> covariance;
};

class FlashSearch {
 public:
  FlashSearch(const StepLoads& loads, int gpus, int slots)
      : loads_(loads), known_(loads), gpus_(gpus), slots_(static_cast<std::size_t>(slots)) {
    std::vector<double> risks;
    for (std::size_t e = 0; e < known_.mean.size(); ++e) risks.push_back(known_.risk(e));
    order_ = descending<std::size_t>(risks);
  }

  std::optional<SlotTable> best() {
    const std::size_t experts = order_.size();
    int left = gpus_ * static_cast<int>(slots_) - static_cast<int>(experts);
    Copies copies(experts, 1);
    if (left < 0) return std::nullopt;
    const std::size_t size = (experts + groups_of_experts - 1) / groups_of_experts;
    const std::span<const std::size_t> order(order_);
    for (std::size_t first = 0, group = 1; first < experts; first += size, ++group) {
      const auto later = order.subspan(std::min(experts, first + size));
      const auto mine = order.subspan(first, std::min(size, experts - first));
      if (later.empty() || group == groups_of_experts) {
        if (!deal(grow(order.subspan(first), left), left, order.subspan(first), copies)) {
          return std::nullopt;
        }
        break;
      }
      left -= choose(mine, later, left, copies);
    }
    return deploy(copies);
  }

 private:
  /// [further copies][place in `experts`] copies: each goes to the riskiest copy.
  std::vector<Copies> grow(std::span<const std::size_t> experts, int most) const {
    std::vector<Copies> history = {Copies(experts.size(), 1)};
    while (static_cast<int>(history.size()) <= most) {
      Copies next = history.back();
      std::size_t riskiest = experts.size();
      double risk = 0;
      for (std::size_t i = 0; i < experts.size(); ++i) {
        const double mine = known_.risk(experts[i]) / next[i];
        if (next[i] < gpus_ && (riskiest == experts.size() || mine > risk))
          riskiest = i, risk = mine;
      }
      if (riskiest == experts.size()) break;
      ++next[riskiest];
      history.push_back(std::move(next));
    }
    return history;
  }

  static bool deal(const std::vector<Copies>& history, int further,
                   std::span<const std::size_t> experts, Copies& copies) {
    if (further < 0 || further >= static_cast<int>(history.size())) return false;
    const Copies& dealt = history[static_cast<std::size_t>(further)];
    for (std::size_t i = 0; i < experts.size(); ++i) copies[experts[i]] = dealt[i];
    return true;
  }

  /// Further copies of a group, which get into `copies`.
  int choose(std::span<const std::size_t> mine, std::span<const std::size_t> later, int left,
             Copies& copies) const {
    std::vector<std::size_t> both(mine.begin(), mine.end());
    both.insert(both.end(), later.begin(), later.end());
    const Copies together = grow(both, left).back();
    const int first = std::reduce(together.begin(), together.begin() + std::ssize(mine)) -
                      static_cast<int>(mine.size());
    const auto of_mine = grow(mine, left), of_later = grow(later, left);
    int best = first;
    double least = std::numeric_limits<double>::infinity();
    const auto attempt = [&](int further) {
      Copies tried = copies;
      if (!deal(of_mine, further, mine, tried) || !deal(of_later, left - further, later, tried)) {
        return;
      }
      const auto table = deploy(tried);
      const double now = table ? imbalance(loads_, *table) : least;
      if (now < least) least = now, best = further;
    };
    attempt(first);
    for (int r = 1; r <= tried_around; ++r) {
      attempt(first - r);
      attempt(first + r);
    }
    deal(of_mine, best, mine, copies);
    return best;
  }

  std::optional<SlotTable> deploy(const Copies& copies) const {
    std::vector<double> means;
    for (std::size_t e = 0; e < copies.size(); ++e) means.push_back(known_.mean[e] / copies[e]);
    SlotTable table(static_cast<std::size_t>(gpus_));
    std::vector<double> loads(table.size()), variances(table.size());
    for (const auto e : descending<std::size_t>(means)) {
      for (int c = 0; c < copies[e]; ++c) {
        std::size_t best = table.size();
        double least = 0, best_variance = 0;
        for (std::size_t g = 0; g < table.size(); ++g) {
          if (table[g].size() == slots_ || std::ranges::count(table[g], id(e)) > 0) continue;
          const double variance = variances[g] + added_variance(e, table[g], copies);
          const double risk = loads[g] + means[e] + quartile * std::sqrt(std::max(variance, 0.0));
          if (best == table.size() || risk < least)
            best = g, least = risk, best_variance = variance;
        }
        if (best == table.size()) return std::nullopt;
        table[best].push_back(id(e));
        loads[best] += means[e];
        variances[best] = best_variance;
      }
    }
    return table;
  }

  double added_variance(std::size_t e, const std::vector<ExpertId>& held,
                        const Copies& copies) const {
    const auto& with = known_.covariance[e];
    double sum = with[e] / copies[e] / copies[e];
    for (const ExpertId other : held) {
      sum += 2 * with[other.index()] / copies[e] / copies[other.index()];
    }
    return sum;
  }
  static ExpertId id(std::size_t e) { return ExpertId(static_cast<std::int64_t>(e)); }

  const StepLoads& loads_;
  LoadStatistics known_;
  int gpus_;
  std::size_t slots_;
  std::vector<std::size_t> order_;  // riskiest first
};

/// The newest steps, added up to 64 samples.
StepLoads samples_of(const StepLoads& loads) {
  const std::size_t each = std::max<std::size_t>(1, loads.size() / most_samples);
  const std::size_t count = std::min(loads.size() / each, most_samples);
  StepLoads samples(count, std::vector<double>(loads.front().size()));
  const std::size_t first = loads.size() - count * each;
  for (std::size_t i = first; i < loads.size(); ++i) {
    auto& sample = samples[(i - first) / each];
    for (std::size_t e = 0; e < sample.size(); ++e) sample[e] += loads[i][e];
  }
  return samples;
}

}  // namespace

double imbalance(const StepLoads& loads, const SlotTable& table) {
  std::vector<int> copies(loads.front().size());
  for (const auto& gpu : table) {
    for (const ExpertId e : gpu) ++copies[e.index()];
  }
  constexpr double little = 0.01;  // as upstream, for steps without load
  double sum = 0;
  for (const auto& step : loads) {
    double all = 0, largest = 0;
    for (const auto& gpu : table) {
      double load = 0;
      for (const ExpertId e : gpu) load += step[e.index()] / copies[e.index()];
      all += load;
      largest = std::max(largest, load);
    }
    sum += (largest * static_cast<double>(table.size()) + little) / (all + little);
  }
  return sum / static_cast<double>(loads.size());
}

std::optional<SlotTable> search(const StepLoads& loads, int gpus, int slots) {
  return FlashSearch(loads, gpus, slots).best();
}

SlotTable least_moves(const SlotTable& before, const SlotTable& after) {
  std::vector<std::vector<int>> stay(before.size());
  for (std::size_t g = 0; g < before.size(); ++g) {
    for (const auto& experts : after) {
      stay[g].push_back(static_cast<int>(std::ranges::count_if(
          experts, [&](ExpertId e) { return std::ranges::count(before[g], e) > 0; })));
    }
  }
  SlotTable renamed;
  for (const int gpu : best_pairs(stay)) renamed.push_back(after[static_cast<std::size_t>(gpu)]);
  return vllm::keep_slots(before, renamed);
}

std::optional<SlotTable> Layer::rebalance(const StepLoads& loads, const SlotTable& before) {
  StepLoads counted = loads;  // as upstream, no expert has none
  for (auto& step : counted) {
    for (double& load : step) ++load;
  }
  const bool many = before.size() >= 32;
  const double now = 1 / imbalance(counted, before);
  if (balance_ > 0 && now >= balance_ * (many ? 0.9 : 0.95) && now >= (many ? 0.85 : 0.9)) {
    return std::nullopt;
  }
  const StepLoads samples = samples_of(counted);
  const auto found =
      search(samples, static_cast<int>(before.size()), static_cast<int>(before.front().size()));
  if (!found) return std::nullopt;
  const double expected = 1 / imbalance(samples, *found);
  if (expected <= now) return std::nullopt;
  balance_ = expected;
  return least_moves(before, *found);
}

}  // namespace moesim::flash_lb
