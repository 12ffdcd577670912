// SPDX-License-Identifier: Apache-2.0
#include "sim/report/metrics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/report/intervals.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

enum Kind { tokens, weights, gradients, kinds };

Kind kind_of(const Op& op) {
  if (carries_tokens(op.stream)) return tokens;
  return op.key.stage == Stage::reduce ? gradients : weights;
}

/// When one GPU was in exchanges: from when it joined, and from when the last participant had.
struct Exchanging {
  std::vector<Interval> joined;
  std::array<std::vector<Interval>, kinds> moving;
};

std::vector<Exchanging> exchanging_of(const Plan& plan, const Timeline& timeline) {
  std::vector<Exchanging> gpus(static_cast<std::size_t>(plan.gpus));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (is_minimum_time(plan.ops[i])) {
      for (std::size_t m = 0; m < timeline.ops[i].size(); ++m) {
        Exchanging& gpu = gpus[plan.ops[i].group[m].index()];
        gpu.joined.push_back(timeline.ops[i][m]);
        gpu.moving[tokens].push_back(timeline.ops[i][m]);
      }
    }
    const Exchange* exchange = plan.ops[i].exchange();
    if (exchange == nullptr) continue;
    const auto& intervals = timeline.ops[i];
    Seconds begin(0);
    for (const Interval& of_gpu : intervals) begin = std::max(begin, of_gpu.start);
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      Exchanging& gpu = gpus[plan.ops[i].group[p].index()];
      gpu.joined.push_back(intervals[p]);
      // At `flow` a GPU may be through before the last one joins.
      const Seconds end = intervals[p].end;
      if (begin < end) gpu.moving[kind_of(plan.ops[i])].push_back({begin, end});
    }
  }
  return gpus;
}

std::vector<Interval> together(std::vector<Interval> some, const std::vector<Interval>& others) {
  some.insert(some.end(), others.begin(), others.end());
  return united(std::move(some));
}

/// The exposed parts of one GPU: each kind outside compute and the kinds before it.
Breakdown breakdown_of(const Exchanging& gpu, const std::vector<Interval>& busy, Seconds makespan) {
  Breakdown b;
  b.compute = length(busy);
  Seconds* const parts[kinds] = {&b.tokens, &b.weights, &b.gradients};
  std::vector<Interval> told = busy;
  for (int kind = 0; kind < kinds; ++kind) {
    if (gpu.moving[static_cast<std::size_t>(kind)].empty()) continue;
    const auto moving = united(gpu.moving[static_cast<std::size_t>(kind)]);
    *parts[kind] = outside(moving, told);
    told = together(std::move(told), moving);
  }
  const auto joined = united(gpu.joined);
  b.waiting = outside(joined, told);
  b.overlapped = inside(joined, busy);
  b.idle = outside({{Seconds(0), makespan}}, together(busy, joined));
  return b;
}

}  // namespace

void Breakdown::add(const Breakdown& other) {
  compute += other.compute;
  tokens += other.tokens;
  weights += other.weights;
  gradients += other.gradients;
  waiting += other.waiting;
  idle += other.idle;
  slowest_compute += other.slowest_compute;
  overlapped += other.overlapped;
}

Binding binding_part(const Breakdown& b) {
  const std::pair<const char*, Seconds> parts[] = {
      {"compute", b.compute},     {"tokens", b.tokens},   {"weights", b.weights},
      {"gradients", b.gradients}, {"waiting", b.waiting}, {"idle", b.idle}};
  Binding most;
  for (const auto& [what, time] : parts) {
    if (time > most.time) most = {what, time};
  }
  return most;
}

Breakdown step_breakdown(const Plan& plan, const Timeline& timeline) {
  const auto busy = compute_intervals(plan, timeline);
  const auto exchanging = exchanging_of(plan, timeline);
  Breakdown sum;
  Seconds slowest;
  for (std::size_t g = 0; g < busy.size(); ++g) {
    Breakdown of_gpu = breakdown_of(exchanging[g], busy[g], timeline.makespan);
    slowest = std::max(slowest, of_gpu.compute);
    sum.add(of_gpu);
  }
  const double mean = 1.0 / static_cast<double>(std::max<std::size_t>(1, busy.size()));
  for (Seconds* part : {&sum.compute, &sum.tokens, &sum.weights, &sum.gradients, &sum.waiting,
                        &sum.idle, &sum.overlapped}) {
    *part = *part * mean;
  }
  sum.slowest_compute = slowest;
  return sum;
}

void Traffic::add(const Traffic& other, std::int64_t times) {
  same_gpu += other.same_gpu * times;
  same_host += other.same_host * times;
  other_host += other.other_host * times;
  link_class.resize(std::max(link_class.size(), other.link_class.size()));
  for (std::size_t c = 0; c < other.link_class.size(); ++c) {
    link_class[c] += other.link_class[c] * times;
  }
}

void LayerMetrics::add(const LayerMetrics& other) {
  forward += other.forward;
  backward += other.backward;
  compute += other.compute;
  communication += other.communication;
  parameters += other.parameters;
  gradients += other.gradients;
  exposed += other.exposed;
  load_max_over_mean.add(other.load_max_over_mean);
  add_to(link_bytes, other.link_bytes);
  traffic.add(other.traffic);
  parameter_traffic.add(other.parameter_traffic);
  migrated += other.migrated;
}

void IterationFigures::add(const IterationTimes& other, double load) {
  const double before = static_cast<double>(count) / (count + 1), now = 1 - before;
  const auto mean = [&](Seconds& a, Seconds b) { a = a * before + b * now; };
  mean(times.iteration, other.iteration);
  for (std::size_t p = 0; p < times.parts.size(); ++p) mean(times.parts[p], other.parts[p]);
  mean(times.slowest_compute, other.slowest_compute);
  mean(times.overlapped, other.overlapped);
  mean(times.busiest, other.busiest);
  load_max_over_mean = load_max_over_mean * before + load * now;
  ++count;
}

Seconds RunMetrics::mean_step() const {
  if (iteration) return iteration->times.iteration;
  const Seconds sum = std::accumulate(steps.begin(), steps.end(), Seconds(0));
  return steps.empty() ? sum : sum * (1.0 / static_cast<double>(steps.size()));
}

Seconds RunMetrics::time_of_steps() const {
  return mean_step() * static_cast<double>(steps.size());
}

std::optional<PeakLink> peak_link(const std::vector<std::int64_t>& link_bytes, Seconds time,
                                  const Topology& topology) {
  std::optional<std::size_t> peak;
  Seconds most;
  for (std::size_t l = 0; l < link_bytes.size(); ++l) {
    const Seconds alone = Bytes(link_bytes[l]) / topology.links()[l].bandwidth;
    if (alone > most) most = alone, peak = l;  // ties: the lowest id stays
  }
  if (!peak) return std::nullopt;
  return PeakLink{topology.links()[*peak], Bytes(link_bytes[*peak]), most / time};
}

}  // namespace moesim
