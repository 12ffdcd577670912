// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/checkpoints.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

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
