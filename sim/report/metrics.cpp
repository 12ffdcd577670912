// SPDX-License-Identifier: Apache-2.0
#include "sim/report/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace moesim {
namespace {

template <class T>
void add_to(std::vector<T>& sum, const std::vector<T>& values) {
  sum.resize(std::max(sum.size(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

double max_over_mean(const std::vector<std::int64_t>& load) {
  const auto sum = std::accumulate(load.begin(), load.end(), std::int64_t{0});
  if (sum == 0) return 0;
  return static_cast<double>(*std::max_element(load.begin(), load.end())) *
         static_cast<double>(load.size()) / static_cast<double>(sum);
}

/// Length of `interval` outside the busy intervals, which are disjoint and ascending.
double outside(const Interval& interval, const std::vector<Interval>& busy) {
  double length = interval.end.value - interval.start.value;
  auto it = std::lower_bound(busy.begin(), busy.end(), interval.start,
                             [](const Interval& b, Seconds t) { return b.end <= t; });
  for (; it != busy.end() && it->start < interval.end; ++it) {
    length -= std::min(it->end, interval.end).value - std::max(it->start, interval.start).value;
  }
  return length;
}

/// Where an exchange's bytes go, and a check that they appear on the tiers they need and no other.
Traffic traffic_of(const Op& op, const LinkLoads& loads, const Topology& topology) {
  const ByteMatrix& matrix = op.exchange()->traffic;
  Traffic traffic;
  for (int g = 0; g < matrix.ranks(); ++g) {
    for (const auto& entry : matrix.row(GpuId(g))) {
      const Bytes bytes = matrix.bytes(entry);
      if (entry.to == GpuId(g)) {
        traffic.same_gpu += bytes;
      } else if (topology.host_of(entry.to) == topology.host_of(GpuId(g))) {
        traffic.same_host += bytes;
      } else {
        traffic.other_host += bytes;
      }
    }
  }
  traffic.link_class.assign(topology.classes().size(), 0);
  for (std::size_t l = 0; l < loads.bytes.size(); ++l) {
    traffic.link_class[static_cast<std::size_t>(topology.links()[l].link_class)] += loads.bytes[l];
  }
  std::int64_t outer = 0;
  for (std::size_t c = 0; c < traffic.link_class.size(); ++c) {
    if (topology.classes()[c].tier != Tier::host) outer += traffic.link_class[c];
  }
  if (outer < traffic.other_host.value) {
    throw std::logic_error(fmt::format("{}: {} bytes leave their host, the fabric carries {}",
                                       op.name, traffic.other_host.value, outer));
  }
  if (outer > 0 && traffic.other_host.value == 0) {
    throw std::logic_error(
        fmt::format("{}: nothing leaves its host, yet the fabric carries {} "
                    "bytes: a host's GPUs are not joined inside it",
                    op.name, outer));
  }
  return traffic;
}

/// Compute intervals of every GPU, ascending (one lane, so disjoint).
std::vector<std::vector<Interval>> compute_intervals(const Plan& plan, const Timeline& timeline) {
  std::vector<std::vector<Interval>> busy(static_cast<std::size_t>(plan.gpus));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Compute* compute = plan.ops[i].compute();
    if (compute == nullptr || plan.ops[i].lane != Lane::compute) continue;
    busy[compute->gpu.index()].push_back(timeline.ops[i][0]);
  }
  for (auto& intervals : busy) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.start < b.start; });
  }
  return busy;
}

struct Span {
  Seconds first{std::numeric_limits<double>::infinity()};
  Seconds last{0};
  void cover(const std::vector<Interval>& intervals) {
    for (const Interval& i : intervals) {
      first = std::min(first, i.start);
      last = std::max(last, i.end);
    }
  }
  Seconds length() const { return last < first ? Seconds(0) : last - first; }
};

void add_load(LayerMetrics& layer, const Op& op, int gpus) {
  const auto* gemm = std::get_if<GroupedGemm>(&op.compute()->kernel);
  if (op.name != "fc1" || gemm == nullptr) return;
  layer.load.resize(static_cast<std::size_t>(gpus));
  layer.load[op.compute()->gpu.index()] +=
      std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
}

}  // namespace

void Traffic::add(const Traffic& other) {
  same_gpu += other.same_gpu;
  same_host += other.same_host;
  other_host += other.other_host;
  add_to(link_class, other.link_class);
}

void LayerMetrics::add(const LayerMetrics& other) {
  forward += other.forward;
  backward += other.backward;
  compute += other.compute;
  communication += other.communication;
  exposed += other.exposed;
  add_to(load, other.load);
  load_max_over_mean = max_over_mean(load);
  add_to(link_bytes, other.link_bytes);
  traffic.add(other.traffic);
}

Seconds RunMetrics::mean_step() const {
  const Seconds sum = std::accumulate(steps.begin(), steps.end(), Seconds(0));
  return steps.empty() ? sum : sum * (1.0 / static_cast<double>(steps.size()));
}

int peak_link(const std::vector<std::int64_t>& link_bytes, const Topology& topology) {
  int peak = -1;
  double most = 0;
  for (std::size_t l = 0; l < link_bytes.size(); ++l) {
    const double time = (Bytes(link_bytes[l]) / topology.links()[l].bandwidth).value;
    if (time > most) most = time, peak = static_cast<int>(l);
  }
  return peak;
}

void add_step(RunMetrics& run, const Plan& plan, const Timeline& timeline,
              const Topology& topology) {
  const auto busy = compute_intervals(plan, timeline);
  const double share = 1.0 / plan.gpus;
  std::map<int, LayerMetrics> layers;
  std::map<std::pair<int, Pass>, Span> spans;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    LayerMetrics& layer = layers[op.layer];
    spans[{op.layer, op.pass}].cover(timeline.ops[i]);
    if (op.compute() != nullptr) {
      const Interval& t = timeline.ops[i][0];
      layer.compute += (t.end - t.start) * share;
      add_load(layer, op, plan.gpus);
      continue;
    }
    const Exchange& exchange = *op.exchange();
    for (std::size_t p = 0; p < exchange.participants.size(); ++p) {
      const Interval& t = timeline.ops[i][p];
      layer.communication += (t.end - t.start) * share;
      layer.exposed += Seconds(outside(t, busy[exchange.participants[p].index()])) * share;
    }
    const LinkLoads loads = topology.loads(exchange.traffic);
    layer.traffic.add(traffic_of(op, loads, topology));
    add_to(layer.link_bytes, loads.bytes);
  }
  for (auto& [key, span] : spans) {
    (key.second == Pass::forward ? layers[key.first].forward : layers[key.first].backward) =
        span.length();
  }
  for (auto& [number, layer] : layers) {
    run.layers[number].add(layer);
    run.total.add(layer);
  }
  run.steps.push_back(timeline.makespan);
}

}  // namespace moesim
