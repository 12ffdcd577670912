// SPDX-License-Identifier: Apache-2.0
// The metrics of one step, from its plan and timeline.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/report/metrics.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

bool starts_earlier(const Interval& a, const Interval& b) { return a.start < b.start; }

/// Merges intervals that overlap; ascending.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), starts_earlier);
  std::vector<Interval> result;
  for (const Interval& i : intervals) {
    if (result.empty() || result.back().end < i.start) {
      result.push_back(i);
    } else {
      result.back().end = std::max(result.back().end, i.end);
    }
  }
  return result;
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
  for (auto& intervals : busy) std::sort(intervals.begin(), intervals.end(), starts_earlier);
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

/// When every GPU was in an exchange.
using Exchanging = std::vector<std::vector<Interval>>;

/// Mean over GPUs of the time in exchanges that no compute hides.
Seconds exposed(const Exchanging& exchanging, const std::vector<std::vector<Interval>>& busy) {
  double sum = 0;
  for (std::size_t g = 0; g < exchanging.size(); ++g) {
    for (const Interval& i : united(exchanging[g])) sum += outside(i, busy[g]);
  }
  return Seconds(sum / static_cast<double>(std::max<std::size_t>(1, exchanging.size())));
}

/// The metrics of one step, filled op by op.
class StepMetrics {
 public:
  StepMetrics(const Plan& plan, const Timeline& timeline, const Topology& topology)
      : plan_(plan), timeline_(timeline), topology_(topology), everywhere_(gpus()) {}

  void add(std::size_t index) {
    const Op& op = plan_.ops[index];
    const auto& intervals = timeline_.ops[index];
    // Parameters may travel long before or after.
    const bool of_pass = carries_tokens(op.lane) || op.lane == Lane::compute;
    if (of_pass) spans_[{op.layer, op.pass}].cover(intervals);
    LayerMetrics& layer = layers_[op.layer];
    if (op.compute() == nullptr) return add_exchange(op, intervals, layer);
    if (op.lane != Lane::compute) return;
    layer.compute += (intervals[0].end - intervals[0].start) * (1.0 / plan_.gpus);
    add_load(layer, op, plan_.gpus);
  }

  void finish(RunMetrics& run) {
    const auto busy = compute_intervals(plan_, timeline_);
    for (auto& [key, span] : spans_) {
      LayerMetrics& layer = layers_[key.first];
      (key.second == Pass::forward ? layer.forward : layer.backward) = span.length();
    }
    Seconds exposed_in_layers;
    for (auto& [number, layer] : layers_) {
      layer.exposed = exposed(exchanging_[number], busy);
      exposed_in_layers += layer.exposed;
      run.layers[number].add(layer);
      run.total.add(layer);
    }
    // Exchanges of different layers may overlap.
    run.total.exposed += exposed(everywhere_, busy) - exposed_in_layers;
    const auto steps = static_cast<double>(run.steps.size());
    run.step_load_max_over_mean =
        (run.step_load_max_over_mean * steps + mean_imbalance()) / (steps + 1);
    run.steps.push_back(timeline_.makespan);
  }

 private:
  std::size_t gpus() const { return static_cast<std::size_t>(plan_.gpus); }

  void add_exchange(const Op& op, const std::vector<Interval>& intervals, LayerMetrics& layer) {
    const Exchange& exchange = *op.exchange();
    const bool tokens = carries_tokens(op.lane);
    Exchanging& of_layer = exchanging_[op.layer];
    of_layer.resize(gpus());
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      const Seconds time = (intervals[p].end - intervals[p].start) * (1.0 / plan_.gpus);
      (tokens ? layer.communication : layer.parameters) += time;
      of_layer[exchange.participants[p].index()].push_back(intervals[p]);
      everywhere_[exchange.participants[p].index()].push_back(intervals[p]);
    }
    const LinkLoads loads = topology_.loads(exchange.traffic);
    (tokens ? layer.traffic : layer.parameter_traffic).add(traffic_of(op, loads, topology_));
    if (op.stage == Stage::migrate) layer.migrated += exchange.traffic.off_diagonal();
    add_to(layer.link_bytes, loads.bytes);
  }

  /// Largest over mean load of a layer, the mean over those that have one.
  double mean_imbalance() const {
    double sum = 0, count = 0;
    for (const auto& [number, layer] : layers_) {
      if (layer.load.empty()) continue;
      sum += max_over_mean(layer.load);
      count += 1;
    }
    return count > 0 ? sum / count : 0;
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const Topology& topology_;
  std::map<int, LayerMetrics> layers_;
  std::map<std::pair<int, Pass>, Span> spans_;
  std::map<int, Exchanging> exchanging_;  // [layer][gpu]
  Exchanging everywhere_;                 // [gpu]
};

}  // namespace

void add_step(RunMetrics& run, const Plan& plan, const Timeline& timeline,
              const Topology& topology) {
  StepMetrics step(plan, timeline, topology);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) step.add(i);
  step.finish(run);
}

}  // namespace moesim
