// SPDX-License-Identifier: Apache-2.0
#include "sim/report/pictures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "sim/base/ordering.h"
#include "sim/plan/phases.h"
#include "sim/report/spans.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

constexpr std::size_t most_bars = 3000;       // of a chart ...
constexpr std::size_t bars_of_middle = 1200;  // ... and of one that shows a part in detail
constexpr std::size_t most_gpus = 16;         // of the folded chart
constexpr std::size_t most_detailed_gpus = 4;
constexpr double narrowest_gap = 1.0 / 1500;  // of the makespan; smaller ones are not drawn

struct DrawnWork {
  std::set<int> layers;
  Seconds compute;
};

std::vector<DrawnWork> work_of_gpus(const Plan& plan, const Timeline& timeline) {
  std::vector<DrawnWork> gpus(static_cast<std::size_t>(plan.gpus));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.stream != Stream::compute || op.kernels() == nullptr) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      DrawnWork& gpu = gpus[op.group[m].index()];
      gpu.layers.insert(op.key.layer);
      gpu.compute += timeline.ops[i][m].end - timeline.ops[i][m].start;
    }
  }
  return gpus;
}

/// At most `most` of them, evenly spaced, the first and the last among them.
template <class T>
std::vector<T> thinned(const std::vector<T>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

/// One GPU for each set of layers, by the first layer of the set.
std::vector<GpuId> drawn_gpus(const Plan& plan, const Timeline& timeline) {
  const std::vector<DrawnWork> gpus = work_of_gpus(plan, timeline);
  std::map<std::set<int>, std::vector<GpuId>> alike;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    alike[gpus[g].layers].push_back(GpuId(static_cast<std::int64_t>(g)));
  }
  if (alike.size() > 1) alike.erase(std::set<int>());  // others stand for them
  const auto less = [&](GpuId a, GpuId b) {
    return gpus[a.index()].compute < gpus[b.index()].compute;
  };
  std::vector<GpuId> chosen;
  for (const auto& [layers, members] : alike) {
    chosen.push_back(*std::ranges::max_element(members, less));
    if (alike.size() > 1) continue;
    chosen.push_back(*std::ranges::min_element(members, less));
    chosen.push_back(members.front());
  }
  if (alike.size() == 1) {
    sort_once(chosen);
  }
  return thinned(chosen, most_gpus);
}

/// All bars of some GPUs, by lane; kinds get their numbers in the order of the plan.
class Bars {
 public:
  Bars(const Plan& plan, const Timeline& timeline, const std::vector<GpuId>& gpus) {
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      for (const OpSpan& span : spans_of(plan.ops[i], timeline.ops[i], gpus)) {
        if (span.end > span.start) add(plan.ops[i], span);
      }
    }
    const auto place = [&](GpuId gpu) { return std::ranges::find(gpus, gpu) - gpus.begin(); };
    std::ranges::stable_sort(
        lanes_, {}, [&](const GanttLane& lane) { return std::pair(place(lane.gpu), lane.stream); });
    for (GanttLane& lane : lanes_) std::ranges::stable_sort(lane.bars, {}, &GanttBar::start);
  }

  std::size_t size() const { return size_; }
  const std::vector<GanttLane>& lanes() const { return lanes_; }
  const std::vector<GanttKind>& kinds() const { return kinds_; }

 private:
  void add(const Op& op, const OpSpan& span) {
    const GanttKind kind{op.label, is_minimum_time(op) ? IterationPart::tokens : part_of(op)};
    const auto [number, fresh] = number_of_.try_emplace(kind, kinds_.size());
    if (fresh) kinds_.push_back(kind);
    const auto [lane, first] = lane_of_.try_emplace({span.gpu, op.stream}, lanes_.size());
    if (first) lanes_.push_back({span.gpu, op.stream, {}});
    lanes_[lane->second].bars.push_back({span.start, span.moving, span.end,
                                         static_cast<int>(number->second), op.key.layer,
                                         op.key.microbatch, op.key.pass});
    ++size_;
  }

  std::size_t size_ = 0;
  std::vector<GanttKind> kinds_;
  std::vector<GanttLane> lanes_;
  std::map<GanttKind, std::size_t> number_of_;
  std::map<std::pair<GpuId, Stream>, std::size_t> lane_of_;
};

/// Successive bars of one pass of one microbatch become one, so do those of an exchange's part.
/// Exchanges begin when their bytes do: a GPU that joins early waits for long.
Gantt folded(const Bars& bars, Seconds makespan) {
  Gantt gantt{true, Seconds(0), makespan, {}, {}};
  const auto number = [&](const GanttKind& kind) {
    const auto known = std::ranges::find(gantt.kinds, kind);
    if (known != gantt.kinds.end()) return static_cast<int>(known - gantt.kinds.begin());
    gantt.kinds.push_back(kind);
    return static_cast<int>(gantt.kinds.size()) - 1;
  };
  const Seconds gap = makespan * narrowest_gap;
  for (const GanttLane& lane : bars.lanes()) {
    GanttLane& shown = gantt.lanes.emplace_back(GanttLane{lane.gpu, lane.stream, {}});
    for (GanttBar bar : lane.bars) {
      const GanttKind& kind = bars.kinds()[static_cast<std::size_t>(bar.kind)];
      const bool update = kind.part == IterationPart::optimizer;
      const bool pass = lane.stream == Stream::compute && !update;
      bar.kind = number(pass ? GanttKind{name_of(bar.pass), IterationPart::bubble}
                             : GanttKind{name_of(kind.part), kind.part});
      bar.layer = -1;
      bar.start = bar.moving;
      if (bar.end <= bar.start) continue;
      if (!shown.bars.empty()) {
        GanttBar& before = shown.bars.back();
        const auto same = [&](const GanttBar& b) {
          return std::tuple(b.kind, pass ? b.microbatch : 0, pass ? b.pass : Pass::forward);
        };
        if (same(before) == same(bar) && bar.start - before.end <= gap) {
          before.end = std::max(before.end, bar.end);
          continue;
        }
      }
      shown.bars.push_back(bar);
    }
  }
  return gantt;
}

/// Every op from `from` to `to`.
Gantt detailed(const Bars& bars, Seconds from, Seconds to) {
  Gantt gantt{false, from, to, bars.kinds(), {}};
  for (const GanttLane& lane : bars.lanes()) {
    GanttLane shown{lane.gpu, lane.stream, {}};
    for (const GanttBar& bar : lane.bars) {
      if (bar.end > from && bar.start < to) shown.bars.push_back(bar);
    }
    if (!shown.bars.empty()) gantt.lanes.push_back(std::move(shown));
  }
  return gantt;
}

/// Around the middle, with as many bars as can be drawn.
Gantt middle(const Bars& bars, Seconds makespan) {
  std::vector<Seconds> starts;
  for (const GanttLane& lane : bars.lanes()) {
    for (const GanttBar& bar : lane.bars) starts.push_back(bar.start);
  }
  std::ranges::sort(starts);
  const auto half =
      static_cast<std::size_t>(std::ranges::lower_bound(starts, makespan * 0.5) - starts.begin());
  const std::size_t first = std::min(half, starts.size() - bars_of_middle);
  return detailed(bars, starts[first], starts[first + bars_of_middle - 1]);
}

constexpr int most_blocks = 64;  // rows of a traffic matrix

TrafficKind kind_of_traffic(const Op& op) {
  switch (op.stream) {
    case Stream::tp:
    case Stream::cp:
      return TrafficKind::activations;
    case Stream::dp:
    case Stream::param:
      return TrafficKind::parameters;
    default:
      return carries_tokens(op.stream) ? TrafficKind::tokens : TrafficKind::stages;
  }
}

void add_rows(const Op& op, RowsOfGpus& rows) {
  for (std::size_t m = 0; m < op.group.size(); ++m) {
    const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
    if (gemm == nullptr) continue;
    rows[op.group[m]] += std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  }
}

/// Those of all GPUs, from those of some that stand for others.
RowsOfGpus with_others(RowsOfGpus rows, const std::vector<GpuId>& by) {
  RowsOfGpus all;
  for (std::size_t g = 0; g < by.size(); ++g) {
    const auto own = rows.find(by[g]);
    if (own != rows.end()) all[GpuId(static_cast<std::int64_t>(g))] = own->second;
  }
  return by.empty() ? rows : all;
}

/// Exchanges that move the same bytes between the same GPUs, counted: microbatches repeat them.
using Repeated = std::tuple<TrafficKind, std::pair<const void*, Bytes>, bool, Group>;

}  // namespace

std::vector<Gantt> gantts_of(const Plan& plan, const Timeline& timeline) {
  const std::vector<GpuId> gpus = drawn_gpus(plan, timeline);
  const Bars bars(plan, timeline, gpus);
  if (bars.size() <= most_bars) return {detailed(bars, Seconds(0), timeline.makespan)};
  const Bars few(plan, timeline, thinned(gpus, most_detailed_gpus));
  std::vector<Gantt> gantts = {folded(bars, timeline.makespan)};
  if (few.size() > most_bars) {
    gantts.push_back(middle(few, timeline.makespan));
  } else {
    gantts.push_back(detailed(few, Seconds(0), timeline.makespan));
  }
  return gantts;
}

void Pictures::add(const PricedPlan& priced, const Timeline& timeline,
                   const std::vector<GpuId>& by) {
  const Plan& plan = priced.plan();
  gpus = plan.gpus;
  gpus_of_block = (gpus + most_blocks - 1) / most_blocks;
  link_bytes.resize(priced.topology().links().size());
  for (const Op& op : plan.ops) microbatches = std::max(microbatches, op.key.microbatch + 1);
  std::map<Repeated, std::pair<const Op*, std::int64_t>> repeated;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.key.type() == OpType{OpKind::fc1} && op.kernels() != nullptr) {
      RowsOfGpus own;
      add_rows(op, own);
      RowsOfGpus& all = rows[op.key.layer][steps * microbatches + op.key.microbatch];
      for (const auto& [gpu, count] : with_others(std::move(own), by)) all[gpu] += count;
    }
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr) continue;
    auto& [first, times] = repeated[{kind_of_traffic(op), exchange->traffic.identity(),
                                     exchange->transposed, op.members()}];
    first = &op;
    ++times;
    for (const ExchangePrice& price : priced.prices_of(OpId(static_cast<std::int64_t>(i)))) {
      for (const LinkUse& use : price->loads.uses) {
        link_bytes[use.link.index()] += use.bytes.value;
      }
    }
  }
  for (const auto& [key, counted] : repeated) {
    auto& matrix = traffic[static_cast<std::size_t>(std::get<TrafficKind>(key))];
    const std::int64_t number = counted.second;
    counted.first->traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (from == to) return;
      const auto block = [&](GpuId gpu) { return static_cast<int>(gpu.value) / gpus_of_block; };
      matrix[{block(from), block(to)}] += bytes.value * number;
    });
  }
  time += timeline.makespan;
  if (steps++ == 0) gantts = gantts_of(plan, timeline);
}

}  // namespace moesim
