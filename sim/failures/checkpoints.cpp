// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr double most_sets = 2e6, drawn = 1e5;

/// The nodes that hold an expert, ascending.
using Holders = std::vector<int>;
using Lost = std::vector<char>;  // [node]

/// Of all experts that matter: one lives whenever some other does if it is on its nodes and more.
std::vector<Holders> holders_of(std::span<const SlotTable> layers, int gpus_per_node) {
  std::set<Holders> all;
  for (const SlotTable& table : layers) {
    std::vector<std::set<int>> nodes;
    for (std::size_t gpu = 0; gpu < table.size(); ++gpu) {
      for (const ExpertId expert : table[gpu]) {
        if (nodes.size() <= expert.index()) nodes.resize(expert.index() + 1);
        nodes[expert.index()].insert(static_cast<int>(gpu) / gpus_per_node);
      }
    }
    for (const auto& of_expert : nodes) all.insert(Holders(of_expert.begin(), of_expert.end()));
  }
  std::vector<Holders> least;
  for (const Holders& one : all) {
    const bool implied = std::ranges::any_of(all, [&](const Holders& other) {
      return other.size() < one.size() && std::ranges::includes(one, other);
    });
    if (!implied) least.push_back(one);
  }
  return least;
}

bool survives(const std::vector<Holders>& holders, const Lost& lost) {
  return std::ranges::none_of(holders, [&](const Holders& of_expert) {
    return std::ranges::all_of(of_expert,
                               [&](int node) { return lost[static_cast<std::size_t>(node)] != 0; });
  });
}

double sets_of(int nodes, int together) {
  double sets = 1;
  for (int i = 0; i < together; ++i) sets *= static_cast<double>(nodes - i) / (i + 1);
  return sets;
}

double share_of_all(const std::vector<Holders>& holders, Lost lost) {
  double good = 0, sets = 0;
  std::ranges::sort(lost);
  do {
    if (survives(holders, lost)) ++good;
    ++sets;
  } while (std::ranges::next_permutation(lost).found);
  return good / sets;
}

/// Drawn by a shuffle of our own, so that the figure is the same with every standard library.
double share_of_drawn(const std::vector<Holders>& holders, Lost lost) {
  std::mt19937_64 random(1);
  double good = 0;
  for (double set = 0; set < drawn; ++set) {
    for (std::size_t i = lost.size(); i > 1; --i) std::swap(lost[i - 1], lost[random() % i]);
    if (survives(holders, lost)) ++good;
  }
  return good / drawn;
}

constexpr double hour = 3600;

/// A piece of work that starts anew after each survived failure, and a pause that does so too.
/// `mean`: its time. `log_chance`: log of the probability that no event of rate `theta` hits it,
/// pauses included (a Laplace transform).
class Piece {
 public:
  Piece(double work, double pause, double rate) : work_(work), pause_(pause), rate_(rate) {}

  double mean() const {
    if (rate_ == 0 || work_ == 0) return work_;
    return std::exp(rate_ * pause_) * std::expm1(rate_ * work_) / rate_;
  }
  double log_chance(double theta) const {
    const double all = rate_ + theta;
    if (all == 0) return 0;
    const double again = rate_ / all;
    const double paused = std::exp(-all * pause_);
    const double ready = paused / (1 - again * -std::expm1(-all * pause_));
    return -all * work_ - std::log1p(-again * -std::expm1(-all * work_) * ready);
  }

 private:
  double work_, pause_, rate_;
};

struct Rates {
  double survived, fatal;
};
Rates rates_of(const FailingJob& job) {
  const double all = 1 / job.between.value;
  return {all * job.survived, all * (1 - job.survived)};
}

/// The time of a restart, failures in it included.
double mean_restart(const FailingJob& job) {
  const double between = job.between.value;
  return std::expm1(job.restart.value / between) * between;
}

/// Time for the given number of steps and a checkpoint of them, whatever fails.
double mean_segment(const FailingJob& job, std::int64_t steps) {
  const Rates rates = rates_of(job);
  const Piece step(job.step.value, job.pause.value, rates.survived);
  const Piece write(job.write.value, job.pause.value, rates.survived);
  const auto count = static_cast<double>(steps);
  if (rates.fatal <= 0) return count * step.mean() + write.mean();
  const double log_chance = count * step.log_chance(rates.fatal) + write.log_chance(rates.fatal);
  return (1 / rates.fatal + mean_restart(job)) * std::expm1(-log_chance);
}

/// The share of time in pauses and restarts. A failure during a restart begins it anew.
double down_share(const FailingJob& job) {
  const Rates rates = rates_of(job);
  const double per_running = rates.fatal > 0 ? rates.fatal * mean_restart(job) : 0;
  // A restart that never ends takes all the time.
  const double restarting = std::isinf(per_running) ? 1 : per_running / (1 + per_running);
  return restarting +
         (1 - restarting) * job.survived * -std::expm1(-job.pause.value / job.between.value);
}

}  // namespace

Survival survival(std::span<const SlotTable> layers, int gpus_per_node, int together) {
  const int gpus = layers.empty() ? 0 : static_cast<int>(layers.front().size());
  if (gpus_per_node < 1 || gpus % gpus_per_node != 0 || together < 1 ||
      together > gpus / std::max(gpus_per_node, 1)) {
    throw Error(fmt::format("{} nodes of {} GPUs cannot be lost of {} GPUs", together,
                            gpus_per_node, gpus));
  }
  const int nodes = gpus / gpus_per_node;
  const auto holders = holders_of(layers, gpus_per_node);
  Lost lost(static_cast<std::size_t>(nodes));
  std::fill_n(lost.begin(), together, 1);
  if (sets_of(nodes, together) <= most_sets) return {share_of_all(holders, lost), true};
  return {share_of_drawn(holders, lost), false};
}

Seconds young_interval(Seconds write, Seconds between) {
  return Seconds(std::sqrt(2 * write.value * between.value));
}

Seconds daly_interval(Seconds write, Seconds between) {
  if (write.value >= 2 * between.value) return between;
  const double half = write.value / (2 * between.value);
  const double root = std::sqrt(2 * write.value * between.value);
  return Seconds(root * (1 + std::sqrt(half) / 3 + half / 9) - write.value);
}

double useful_share(const FailingJob& job, std::int64_t steps) {
  return job.step.value * static_cast<double>(steps) / mean_segment(job, steps);
}

std::int64_t best_steps(const FailingJob& job) {
  // The share rises to its one maximum and falls after it. Without fatal failures it rises forever,
  // so the search ends at a year.
  std::int64_t low = 1, high = std::max<std::int64_t>(1, std::llround(longest_interval / job.step));
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const bool rises = useful_share(job, middle + 1) > useful_share(job, middle);
    (rises ? low : high) = rises ? middle + 1 : middle;
  }
  return low;
}

HourOfFailures hour_of(const FailingJob& job, std::int64_t steps) {
  const double share = useful_share(job, steps);
  HourOfFailures of;
  of.failures = hour / job.between.value;
  of.lost = Seconds(hour * (1 - share));
  const double segments = hour * share / (job.step.value * static_cast<double>(steps));
  of.writing = Seconds(segments * job.write.value);
  of.down = Seconds(hour * down_share(job));
  of.redone = (of.lost.value - of.writing.value - of.down.value) / job.step.value;
  return of;
}

}  // namespace moesim
