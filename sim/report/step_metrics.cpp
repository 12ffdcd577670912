// SPDX-License-Identifier: Apache-2.0
// The metrics of one step, from its plan and timeline.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/report/intervals.h"
#include "sim/report/iteration_layers.h"
#include "sim/report/metrics.h"
#include "sim/report/moved_bytes.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

struct Span {
  Seconds first{std::numeric_limits<double>::infinity()};
  Seconds last{0};
  int times = 1;
  void cover(const Interval& interval) {
    first = std::min(first, interval.start);
    last = std::max(last, interval.end);
  }
  Seconds length() const { return last < first ? Seconds(0) : last - first; }
};

/// Choices that every GPU computes, forward: [gpu].
using GpuLoads = std::vector<std::int64_t>;

void add_load(GpuLoads& loads, const Op& op, int times, int gpus) {
  if (op.key.type() != OpType{OpKind::fc1}) return;
  loads.resize(static_cast<std::size_t>(gpus));
  for (std::size_t m = 0; m < op.group.size(); ++m) {
    const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
    if (gemm == nullptr) continue;
    loads[op.group[m].index()] +=
        times * std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  }
}

/// Mean over GPUs of the time in exchanges that no compute hides.
Seconds exposed(const GpuIntervals& exchanging, const GpuIntervals& busy,
                const Continued* continued = nullptr) {
  double sum = 0;
  for (std::size_t g = 0; g < exchanging.size(); ++g) {
    std::vector<Interval> all = united(exchanging[g]);
    sum += outside(all, busy[g]).value;
    if (continued == nullptr) continue;
    for (Interval& each : all) each = within(each, continued->window);
    std::erase_if(all, [](const Interval& each) { return !(each.start < each.end); });
    sum += outside(all, busy[g]).value * continued->times;
  }
  return Seconds(sum / static_cast<double>(std::max<std::size_t>(1, exchanging.size())));
}

/// The metrics of one step, filled op by op.
class StepMetrics {
 public:
  /// `stages`: [GPU] its stage of the pipeline; empty: there is one.
  StepMetrics(const PricedPlan& priced, const Timeline& timeline,
              const std::vector<int>& stages = {}, const Continued* continued = nullptr)
      : stages_(stages),
        continued_(continued),
        plan_(priced.plan()),
        timeline_(timeline),
        moved_(priced),
        everywhere_(stages.empty() ? gpus() : 0) {
    std::map<int, int> stage_gpus;
    for (const int stage : stages) ++stage_gpus[stage];
    for (const int stage : stages) gpus_with_.push_back(stage_gpus.at(stage));
    if (stages.empty()) gpus_with_.assign(gpus(), plan_.gpus);
    for (const int with : gpus_with_) share_of_.push_back(1.0 / with);
  }

  void add(std::size_t index) {
    const Op& op = plan_.ops[index];
    if (is_minimum_time(op)) {
      minimum_until_.resize(gpus());
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        minimum_until_[op.group[m].index()] = timeline_.ops[index][m].end;
      }
      return;
    }
    std::vector<Interval>& intervals = times_;
    read_times(timeline_.ops[index], intervals);
    if (!minimum_until_.empty()) add_minimum_times(op, intervals);
    // Parameters may travel long before or after.
    const bool of_pass = carries_tokens(op.stream) || op.stream == Stream::compute;
    const int times = continued_ != nullptr ? continued_->count(index) : 1;
    if (of_pass) span_of(op.key, times).cover(moesim::span_of(intervals));
    if (last_layer_ == nullptr || last_number_ != op.key.layer) {
      last_layer_ = &layers_[last_number_ = op.key.layer];
      last_exchanging_ = nullptr;
    }
    LayerMetrics& layer = *last_layer_;
    if (op.kernels() == nullptr) {
      moved_.add(OpId(static_cast<std::int64_t>(index)), times);
      return add_exchange(op, intervals, times, layer);
    }
    if (op.stream != Stream::compute) return;
    const double share = op.group.empty() ? 0 : times * share_of_[op.group[0].index()];
    for (const auto& [start, end] : intervals) layer.compute += (end - start) * share;
    add_load(loads_[op.key.layer], op, times, plan_.gpus);
  }

  /// Metrics of layers that each have a stage.
  std::map<int, LayerMetrics> layers_of_stages() {
    const auto busy = compute_intervals(plan_, timeline_);
    close_layers();
    for (auto& [number, layer] : layers_) {
      // GPUs of other stages have no share in it.
      const auto own = first_with_part(number);
      const double with = gpus_with_[own.index()];
      layer.exposed = exposed(exchanging_[number], busy, continued_) * (plan_.gpus / with);
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

  /// Ops that follow each other are mostly of one pass.
  Span& span_of(const OpKey& key, int times) {
    const PassKey pass(key.layer, key.pass, key.microbatch);
    if (last_span_ == nullptr || pass != last_pass_) last_span_ = &spans_[last_pass_ = pass];
    last_span_->times = times;  // of its last op: weight gradients may be a turn of their own
    return *last_span_;
  }

  /// A GPU that works on a layer.
  GpuId first_with_part(int layer) const {
    const auto loads = loads_.find(layer);
    if (loads != loads_.end()) {
      const GpuLoads& of = loads->second;
      const auto first = std::ranges::find_if(of, [](std::int64_t load) { return load > 0; });
      if (first != of.end()) return GpuId(first - of.begin());
    }
    return GpuId(0);
  }

  void close_layers() {
    moved_.add_to(layers_);
    for (const auto& [key, span] : spans_) {
      const auto& [number, pass, microbatch] = key;
      LayerMetrics& layer = layers_[number];
      (pass == Pass::forward ? layer.forward : layer.backward) += span.length() * span.times;
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
  void add_minimum_times(const Op& op, std::vector<Interval>& intervals) {
    if (op.exchange() == nullptr || !carries_tokens(op.stream)) return;
    std::vector<Seconds>& taken_until = taken_until_.at(static_cast<std::size_t>(op.stream));
    taken_until.resize(gpus());
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      const GpuId gpu = op.group[p];
      Interval& interval = intervals[p];
      Seconds& taken = taken_until[gpu.index()];
      const Seconds minimum = std::exchange(minimum_until_[gpu.index()], Seconds(0));
      const bool longer = minimum > interval.end;
      interval.start = std::max(interval.start, taken);
      interval.end = std::max({interval.start, interval.end, minimum});
      if (longer) taken = interval.end;
    }
  }

  void add_exchange(const Op& op, const std::vector<Interval>& intervals, int times,
                    LayerMetrics& layer) {
    const bool tokens = carries_tokens(op.stream);
    if (last_exchanging_ == nullptr) {
      last_exchanging_ = &exchanging_[op.key.layer];
      last_exchanging_->resize(gpus());
    }
    GpuIntervals& of_layer = *last_exchanging_;
    const std::vector<GpuId>& members = op.group.list();
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      const std::size_t gpu = members[p].index();
      const Seconds time = (intervals[p].end - intervals[p].start) * (times * share_of_[gpu]);
      (tokens ? layer.communication : layer.parameters) += time;
      if (!tokens && op.key.stage == Stage::reduce) layer.gradients += time;
      add_interval(of_layer[gpu], intervals[p]);
      if (!everywhere_.empty()) add_interval(everywhere_[gpu], intervals[p]);
    }
  }

  using PassKey = std::tuple<int, Pass, int>;  // layer, microbatch

  const std::vector<int> stages_;
  const Continued* continued_;    // null: the timeline is all there is
  std::vector<int> gpus_with_;    // [gpu] GPUs of the stage that it belongs to
  std::vector<double> share_of_;  // [gpu] 1 / that
  const Plan& plan_;
  const Timeline& timeline_;
  std::map<int, LayerMetrics> layers_;
  std::map<int, GpuLoads> loads_;  // by layer
  std::map<PassKey, Span> spans_;
  PassKey last_pass_;
  Span* last_span_ = nullptr;  // of it
  int last_number_ = 0;        // of a layer
  LayerMetrics* last_layer_ = nullptr;
  GpuIntervals* last_exchanging_ = nullptr;  // of it, once it is needed
  std::vector<Interval> times_;              // of the op that is being added
  MovedBytes moved_;
  std::map<int, GpuIntervals> exchanging_;                      // [layer][gpu]
  GpuIntervals everywhere_;                                     // [gpu]; none of stages
  std::vector<Seconds> minimum_until_;                          // [gpu] of the exchange to come
  std::array<std::vector<Seconds>, stream_count> taken_until_;  // [gpu] by longer minimum times
};

}  // namespace

void add_step(RunMetrics& run, const PricedPlan& plan, const Timeline& timeline) {
  StepMetrics step(plan, timeline);
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) step.add(i);
  step.finish(run);
  run.breakdown.add(step_breakdown(plan.plan(), timeline));
}

std::map<int, LayerMetrics> iteration_layers(const PricedPlan& plan, const Timeline& timeline,
                                             const std::vector<int>& stages,
                                             const Continued* continued) {
  StepMetrics step(plan, timeline, stages, continued);
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) {
    const Op& op = plan.plan().ops[i];
    const IterationPart part = part_of(op);
    const bool around =
        op.key.layer < 0 || part == IterationPart::dense || part == IterationPart::offload;
    if (!around) step.add(i);
  }
  return step.layers_of_stages();
}

}  // namespace moesim
