// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/serving_metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace moesim {
namespace {

using Counts = std::map<double, std::int64_t>;

std::int64_t count_of(const Counts& counts) {
  std::int64_t count = 0;
  for (const auto& [value, times] : counts) count += times;
  return count;
}

double tpot_of(const RequestOutcome& request) {
  return (request.finish - request.first).value / static_cast<double>(request.output - 1);
}

bool meets(const RequestOutcome& request, const ServingSla& sla) {
  if (sla.ttft && request.first - request.arrival > *sla.ttft) return false;
  return !sla.tpot || request.output == 1 || tpot_of(request) <= sla.tpot->value;
}

void add_requests(const ServingRun& run, const ServingSla& sla, ServingMetrics& metrics) {
  Counts ttft, tpot, latency;
  std::int64_t good = 0, input = 0, output = 0;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const RequestOutcome& request = run.requests[i];
    input += request.input;
    output += request.emitted;
    metrics.last_arrival = std::max(metrics.last_arrival, request.arrival);
    if (static_cast<std::int64_t>(i) < metrics.warmup) continue;
    ++metrics.requests;
    ++ttft[(request.first - request.arrival).value];
    if (request.output > 1) ++tpot[tpot_of(request)];
    ++latency[(request.finish - request.arrival).value];
    good += meets(request, sla) ? 1 : 0;
  }
  metrics.ttft = latency_figures(ttft);
  metrics.tpot = latency_figures(tpot);
  metrics.latency = latency_figures(latency);
  metrics.gap = latency_figures(run.gaps);
  const double time = run.end.value;
  if (metrics.requests > 0) {
    metrics.rates.good_share = static_cast<double>(good) / static_cast<double>(metrics.requests);
  }
  if (time <= 0) return;
  metrics.rates.input = static_cast<double>(input) / time;
  metrics.rates.output = static_cast<double>(output) / time;
  metrics.rates.requests = static_cast<double>(run.requests.size()) / time;
  metrics.rates.goodput = metrics.rates.good_share * metrics.rates.requests;
  if (metrics.tpot.p50 > 0) metrics.rates.output_per_user = 1 / metrics.tpot.p50;
}

/// What was true from each sample to the next of its instance, over the time of the run.
void add_samples(const ServingRun& run, ServingMetrics& metrics) {
  std::vector<const ServingSample*> last(run.instances.size());
  double kv = 0, waiting = 0, running = 0;
  const auto weigh = [&](const ServingSample& sample, Seconds until) {
    const double span = (until - sample.time).value;
    kv += span * static_cast<double>(sample.kv_tokens);
    waiting += span * static_cast<double>(sample.waiting);
    running += span * static_cast<double>(sample.running);
  };
  for (const ServingSample& sample : run.samples) {
    const ServingSample*& before = last[static_cast<std::size_t>(sample.instance)];
    if (before != nullptr) weigh(*before, sample.time);
    before = &sample;
    metrics.load.waiting_most = std::max(metrics.load.waiting_most, sample.waiting);
  }
  for (const ServingSample* sample : last) {
    if (sample != nullptr) weigh(*sample, run.end);
  }
  double capacity = 0;
  for (const InstanceSummary& instance : run.instances) {
    if (instance.kv_capacity == no_limit) continue;
    const auto own = static_cast<double>(instance.kv_capacity);
    capacity += own * instance.rank_count;
    metrics.load.kv_most =
        std::max(metrics.load.kv_most, static_cast<double>(instance.kv_tokens_most) / own);
  }
  const double time = run.end.value;
  if (time <= 0) return;
  if (capacity > 0) metrics.load.kv_mean = kv / time / capacity;
  metrics.load.waiting_mean = waiting / time;
  metrics.load.running_mean = running / time;
}

void add_instances(const ServingRun& run, ServingMetrics& metrics) {
  double busy = 0, stalled = 0;
  std::array<double, pass_parts> parts{};
  RankCounts ranks;
  std::int64_t padding = 0;
  for (const InstanceSummary& instance : run.instances) {
    busy += instance.counts.busy.value;
    stalled += instance.counts.stalled.value;
    for (std::size_t part = 0; part < pass_parts; ++part) {
      parts[part] += instance.counts.parts[part].value;
    }
    ranks += instance.ranks;
    padding += instance.counts.padding;
    metrics.passes.passes += instance.counts.passes;
  }
  metrics.load.preemptions = ranks.preemptions;
  const std::int64_t tokens = ranks.prompt_tokens + ranks.decode_tokens + padding;
  if (ranks.asked_tokens > 0) {
    metrics.load.cached_share =
        static_cast<double>(ranks.hit_tokens) / static_cast<double>(ranks.asked_tokens);
  }
  if (tokens > 0) {
    metrics.passes.padding_share = static_cast<double>(padding) / static_cast<double>(tokens);
  }
  if (busy <= 0) return;
  metrics.passes.busy = busy / run.end.value / static_cast<double>(run.instances.size());
  metrics.passes.stall_share = stalled / busy;
  for (std::size_t part = 0; part < pass_parts; ++part) {
    metrics.passes.part_shares[part] = parts[part] / busy;
  }
}

}  // namespace

double nearest_rank(const Counts& counts, double percent) {
  const double wanted = percent / 100 * static_cast<double>(count_of(counts));
  std::int64_t before = 0;
  for (const auto& [value, times] : counts) {
    before += times;
    // A tenth of a percent of 1,000 values may come out above 1.
    if (static_cast<double>(before) >= wanted * (1 - 1e-12)) return value;
  }
  return 0;
}

double percentile(const Counts& counts, double percent, PercentileRule rule) {
  if (rule == PercentileRule::nearest_rank || counts.empty()) return nearest_rank(counts, percent);
  const auto count = static_cast<double>(count_of(counts));
  const double of = rule == PercentileRule::linear ? count - 1 : count;
  const double place = percent * of / 100, below = std::floor(place * (1 + 1e-12));
  std::int64_t before = 0;
  for (auto at = counts.begin(); at != counts.end(); ++at) {
    before += at->second;
    if (static_cast<double>(before) <= below && std::next(at) != counts.end()) continue;
    const bool last_of_these = static_cast<double>(before) <= below + 1;
    const double rest = rule == PercentileRule::linear ? std::max(0.0, place - below) : 0;
    if (rest == 0 || !last_of_these || std::next(at) == counts.end()) return at->first;
    return at->first + rest * (std::next(at)->first - at->first);
  }
  return 0;
}

namespace {

Percentiles percentiles(const Counts& counts, PercentileRule rule) {
  return {percentile(counts, 50, rule), percentile(counts, 90, rule), percentile(counts, 95, rule),
          percentile(counts, 99, rule)};
}

}  // namespace

LatencyFigures latency_figures(const Counts& counts) {
  LatencyFigures figures;
  figures.count = count_of(counts);
  if (figures.count == 0) return figures;
  for (const auto& [value, times] : counts) figures.mean += value * static_cast<double>(times);
  figures.mean /= static_cast<double>(figures.count);
  figures.p50 = nearest_rank(counts, 50);
  figures.p90 = nearest_rank(counts, 90);
  figures.p95 = nearest_rank(counts, 95);
  figures.p99 = nearest_rank(counts, 99);
  figures.most = counts.rbegin()->first;
  figures.linear = percentiles(counts, PercentileRule::linear);
  figures.floor = percentiles(counts, PercentileRule::floor);
  return figures;
}

ServingMetrics serving_metrics(const ServingRun& run, const ServingSla& sla, std::int64_t warmup,
                               std::int64_t gpus) {
  ServingMetrics metrics;
  metrics.warmup = std::min(warmup, static_cast<std::int64_t>(run.requests.size()));
  metrics.time = run.end;
  add_requests(run, sla, metrics);
  add_samples(run, metrics);
  add_instances(run, metrics);
  metrics.rates.output_per_gpu = metrics.rates.output / static_cast<double>(gpus);
  return metrics;
}

std::vector<ServingSample> thinned(const std::vector<ServingSample>& samples, std::size_t most) {
  if (samples.size() <= most || most == 0) return samples;
  std::vector<ServingSample> kept;
  for (std::size_t i = 1; i <= most; ++i) kept.push_back(samples[i * samples.size() / most - 1]);
  return kept;
}

}  // namespace moesim
