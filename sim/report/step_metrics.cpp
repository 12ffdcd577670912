// SPDX-License-Identifier: Apache-2.0
// The metrics of one step, from its plan and timeline.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/report/intervals.h"
#include "sim/report/iteration_layers.h"
#include "sim/report/metrics.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

/// How far the units of a matrix go among a group, whichever way.
struct Reached {
  std::int64_t same_gpu = 0, same_host = 0, other_host = 0;
};

Reached reached(const ByteMatrix& matrix, const Group& group, const Topology& topology) {
  std::vector<int> host_of;
  for (const GpuId gpu : group) host_of.push_back(topology.host_of(gpu));
  Reached units;
  for (int row = 0; row < matrix.ranks(); ++row) {
    const int host = host_of[static_cast<std::size_t>(row)];
    for (const ByteMatrix::Entry& entry : matrix.row(GpuId(row))) {
      (host_of[entry.to.index()] == host ? units.same_host : units.other_host) += entry.units;
      if (entry.to.value == row) units.same_gpu += entry.units;
    }
  }
  units.same_host -= units.same_gpu;
  return units;
}

/// Where an exchange's bytes go, and a check that they appear on the tiers they need and no other.
Traffic traffic_of(const Op& op, const Reached& units, const LinkLoads& loads,
                   const Topology& topology) {
  const std::int64_t unit = op.exchange()->traffic.unit().value;
  Traffic traffic{Bytes(units.same_gpu * unit),
                  Bytes(units.same_host * unit),
                  Bytes(units.other_host * unit),
                  {}};
  traffic.link_class.assign(topology.classes().size(), 0);
  const std::vector<Link>& links = topology.links();
  for (const LinkUse& use : loads.uses) {
    const int link_class = links[use.link.index()].link_class;
    traffic.link_class[static_cast<std::size_t>(link_class)] += use.bytes.value;
  }
  std::int64_t outer = 0;
  for (std::size_t c = 0; c < traffic.link_class.size(); ++c) {
    if (topology.classes()[c].tier != Tier::host) outer += traffic.link_class[c];
  }
  if (outer < traffic.other_host.value) {
    throw std::logic_error(fmt::format("{}: {} bytes leave their host, the fabric carries {}",
                                       op.label.text(), traffic.other_host.value, outer));
  }
  if (outer > 0 && traffic.other_host.value == 0) {
    throw std::logic_error(
        fmt::format("{}: nothing leaves its host, yet the fabric carries {} "
                    "bytes: a host's GPUs are not joined inside it",
                    op.label.text(), outer));
  }
  return traffic;
}

struct Span {
  Seconds first{std::numeric_limits<double>::infinity()};
  Seconds last{0};
  void cover(std::span<const Interval> intervals) {
    for (const Interval& i : intervals) {
      first = std::min(first, i.start);
      last = std::max(last, i.end);
    }
  }
  Seconds length() const { return last < first ? Seconds(0) : last - first; }
};

/// Choices that every GPU computes, forward: [gpu].
using GpuLoads = std::vector<std::int64_t>;

void add_load(GpuLoads& loads, const Op& op, int gpus) {
  if (op.key.type() != OpType{OpKind::fc1}) return;
  loads.resize(static_cast<std::size_t>(gpus));
  for (std::size_t m = 0; m < op.group.size(); ++m) {
    const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
    if (gemm == nullptr) continue;
    loads[op.group[m].index()] += std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  }
}

/// Mean over GPUs of the time in exchanges that no compute hides.
Seconds exposed(const GpuIntervals& exchanging, const GpuIntervals& busy) {
  double sum = 0;
  for (std::size_t g = 0; g < exchanging.size(); ++g) {
    sum += outside(united(exchanging[g]), busy[g]).value;
  }
  return Seconds(sum / static_cast<double>(std::max<std::size_t>(1, exchanging.size())));
}

/// The metrics of one step, filled op by op.
class StepMetrics {
 public:
  /// `stages`: [GPU] its stage of the pipeline; empty: there is one.
  StepMetrics(const PricedPlan& priced, const Timeline& timeline,
              const std::vector<int>& stages = {})
      : stages_(stages),
        priced_(priced),
        plan_(priced.plan()),
        timeline_(timeline),
        topology_(priced.topology()),
        everywhere_(gpus()) {
    for (const int stage : stages) ++stage_gpus_[stage];
  }

  void add(std::size_t index) {
    const Op& op = plan_.ops[index];
    if (is_minimum_time(op)) {
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        minimum_until_[op.group[m]] = timeline_.ops[index][m].end;
      }
      return;
    }
    std::vector<Interval> longer;
    std::span<const Interval> intervals = timeline_.ops[index];
    if (!minimum_until_.empty()) {
      longer = with_minimum_times(op, {intervals.begin(), intervals.end()});
      intervals = longer;
    }
    // Parameters may travel long before or after.
    const bool of_pass = carries_tokens(op.stream) || op.stream == Stream::compute;
    if (of_pass) spans_[{op.key.layer, op.key.pass, op.key.microbatch}].cover(intervals);
    LayerMetrics& layer = layers_[op.key.layer];
    if (op.kernels() == nullptr) {
      return add_exchange(op, priced_[OpId(static_cast<std::int64_t>(index))]->loads, intervals,
                          layer);
    }
    if (op.stream != Stream::compute) return;
    for (const Interval& of_gpu : intervals) {
      layer.compute += (of_gpu.end - of_gpu.start) * (1.0 / gpus_with(op.group[0]));
    }
    add_load(loads_[op.key.layer], op, plan_.gpus);
  }

  /// Metrics of layers that each have a stage.
  std::map<int, LayerMetrics> layers_of_stages() {
    const auto busy = compute_intervals(plan_, timeline_);
    close_layers();
    for (auto& [number, layer] : layers_) {
      // GPUs of other stages have no share in it.
      const auto own = first_with_part(number);
      layer.exposed = exposed(exchanging_[number], busy) * (plan_.gpus / double(gpus_with(own)));
    }
    return layers_;
  }

  void finish(RunMetrics& run) {
    const auto busy = compute_intervals(plan_, timeline_);
    close_layers();
    const Seconds exposed_before = run.total.exposed;
    for (auto& [number, layer] : layers_) {
      layer.exposed = exposed(exchanging_[number], busy);
      run.layers[number].add(layer);
      run.total.add(layer);
    }
    // Exchanges of different layers may overlap.
    run.total.exposed = exposed_before + exposed(everywhere_, busy);
    run.steps.push_back(timeline_.makespan);
  }

 private:
  std::size_t gpus() const { return static_cast<std::size_t>(plan_.gpus); }

  /// GPUs of the stage that a GPU belongs to.
  int gpus_with(GpuId gpu) const {
    if (stages_.empty()) return plan_.gpus;
    return stage_gpus_.at(stages_[gpu.index()]);
  }

  /// A GPU that works on a layer.
  GpuId first_with_part(int layer) const {
    const auto loads = loads_.find(layer);
    if (loads != loads_.end()) {
      for (std::size_t g = 0; g < loads->second.size(); ++g) {
        if (loads->second[g] > 0) return GpuId(static_cast<std::int64_t>(g));
      }
    }
    return GpuId(0);
  }

  void close_layers() {
    for (const auto& [key, span] : spans_) {
      const auto& [number, pass, microbatch] = key;
      LayerMetrics& layer = layers_[number];
      (pass == Pass::forward ? layer.forward : layer.backward) += span.length();
    }
    for (auto& [number, loads] : loads_) {
      if (loads.empty()) continue;
      if (!stages_.empty()) {
        const int stage = stages_[first_with_part(number).index()];
        std::size_t kept = 0;
        for (std::size_t g = 0; g < loads.size(); ++g) {
          if (stages_[g] == stage) loads[kept++] = loads[g];
        }
        loads.resize(kept);
      }
      layers_[number].load_max_over_mean.add(max_over_mean(loads));
    }
  }

  /// A GPU is in a token exchange for its minimum time at least. What that takes of the next
  /// round's exchange belongs to its own.
  std::vector<Interval> with_minimum_times(const Op& op, std::vector<Interval> intervals) {
    if (op.exchange() == nullptr || !carries_tokens(op.stream)) return intervals;
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      const GpuId gpu = op.group[p];
      Interval& interval = intervals[p];
      Seconds& taken = taken_until_[{op.stream, gpu}];
      const Seconds minimum = std::exchange(minimum_until_[gpu], Seconds(0));
      const bool longer = minimum > interval.end;
      interval.start = std::max(interval.start, taken);
      interval.end = std::max({interval.start, interval.end, minimum});
      if (longer) taken = interval.end;
    }
    return intervals;
  }

  void add_exchange(const Op& op, const LinkLoads& loads, std::span<const Interval> intervals,
                    LayerMetrics& layer) {
    const Exchange& exchange = *op.exchange();
    const bool tokens = carries_tokens(op.stream);
    GpuIntervals& of_layer = exchanging_[op.key.layer];
    of_layer.resize(gpus());
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      const Seconds time = (intervals[p].end - intervals[p].start) * (1.0 / gpus_with(op.group[p]));
      (tokens ? layer.communication : layer.parameters) += time;
      if (!tokens && op.key.stage == Stage::reduce) layer.gradients += time;
      of_layer[op.group[p].index()].push_back(intervals[p]);
      everywhere_[op.group[p].index()].push_back(intervals[p]);
    }
    (tokens ? layer.traffic : layer.parameter_traffic)
        .add(traffic_of(op, reached_by(op), loads, topology_));
    if (op.key.stage == Stage::migrate) layer.migrated += exchange.traffic.off_diagonal();
    layer.link_bytes.resize(topology_.links().size());
    for (const LinkUse& use : loads.uses) layer.link_bytes[use.link.index()] += use.bytes.value;
  }

  /// Exchanges there and back, forward and backward share a matrix.
  const Reached& reached_by(const Op& op) {
    const ByteMatrix& matrix = op.exchange()->traffic;
    const auto [known, fresh] = reached_.try_emplace({matrix.identity().first, op.group});
    if (fresh) known->second = reached(matrix, op.group, topology_);
    return known->second;
  }

  const std::vector<int> stages_;
  std::map<int, int> stage_gpus_;
  const PricedPlan& priced_;
  const Plan& plan_;
  const Timeline& timeline_;
  const Topology& topology_;
  std::map<std::pair<const void*, Group>, Reached> reached_;  // by the entries of a matrix
  std::map<int, LayerMetrics> layers_;
  std::map<int, GpuLoads> loads_;                            // by layer
  std::map<std::tuple<int, Pass, int>, Span> spans_;         // by layer, pass, microbatch
  std::map<int, GpuIntervals> exchanging_;                   // [layer][gpu]
  GpuIntervals everywhere_;                                  // [gpu]
  std::map<GpuId, Seconds> minimum_until_;                   // of the exchange to come
  std::map<std::pair<Stream, GpuId>, Seconds> taken_until_;  // by minimum times that were longer
};

}  // namespace

void add_step(RunMetrics& run, const PricedPlan& plan, const Timeline& timeline) {
  StepMetrics step(plan, timeline);
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) step.add(i);
  step.finish(run);
  run.breakdown.add(step_breakdown(plan.plan(), timeline));
}

std::map<int, LayerMetrics> iteration_layers(const PricedPlan& plan, const Timeline& timeline,
                                             const std::vector<int>& stages) {
  StepMetrics step(plan, timeline, stages);
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) {
    const Op& op = plan.plan().ops[i];
    const bool around = op.key.layer < 0 || part_of(op) == IterationPart::dense;
    if (!around) step.add(i);
  }
  return step.layers_of_stages();
}

}  // namespace moesim
