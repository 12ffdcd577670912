// SPDX-License-Identifier: Apache-2.0
// Groups the ops of a layer into phases and kernels, simulates phases by themselves and inside the
// layer.
#include "sim/report/explain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/report/stage_times.h"

namespace moesim {
namespace {

using Ops = std::vector<OpId>;

/// A backend's timeline of the whole layer.
struct Run {
  NamedBackend by;
  Timeline timeline;
};

void add_reach(ReachTotals& reach, const Op& op, const Topology& topology) {
  const auto distance = [&topology](GpuId from, GpuId to) -> std::size_t {
    if (from == to) return 0;
    return topology.host_of(from) == topology.host_of(to) ? 1 : 2;
  };
  op.traffic().for_each(
      [&](GpuId from, GpuId to, Bytes bytes) { reach.bytes[distance(from, to)] += bytes; });
  for (const RowMove& row : op.exchange()->rows) ++reach.rows[distance(row.from, row.to)];
}

void add_loads(LinkLoads& sum, const LinkLoads& loads) {
  std::vector<LinkUse> uses;
  auto old = sum.uses.begin();
  for (const LinkUse& use : loads.uses) {
    while (old != sum.uses.end() && old->link < use.link) uses.push_back(*old++);
    uses.push_back(use);
    if (old == sum.uses.end() || old->link != use.link) continue;
    uses.back() = {use.link, old->bytes + use.bytes, old->time + use.time,
                   std::min(old->first, use.first)};
    ++old;
  }
  uses.insert(uses.end(), old, sum.uses.end());
  sum.uses = std::move(uses);
  sum.latency = std::max(sum.latency, loads.latency);
}

/// [class] its links; of a pipeline stage's topology those between its GPUs, as it has the links of
/// all stages.
std::vector<int> links_by_class(const Topology& topology) {
  std::vector<int> counts(topology.classes().size());
  const auto count = [&](const Link& link) { ++counts[static_cast<std::size_t>(link.link_class)]; };
  const int gpus = topology.gpu_count();
  if (std::ranges::count(topology.vertices(), VertexKind::gpu, &Vertex::kind) == gpus) {
    std::ranges::for_each(topology.links(), count);
    return counts;
  }
  // Enough for each of equal-cost paths to carry a part.
  constexpr std::uint32_t units = 1 << 20;
  const auto members = static_cast<std::size_t>(gpus);
  const auto all = ByteMatrix::of_counts(
      gpus, std::make_shared<const ByteMatrix::Counts>(members * members, units), Bytes(1));
  for (const LinkUse& use : topology.loads(all).uses) count(topology.link(use.link));
  return counts;
}

/// The classes that carry anything; `over_mean` is filled in last, from the sum of times.
std::vector<ClassLoad> class_loads(const LinkLoads& loads, const Topology& topology,
                                   const std::vector<int>& links) {
  std::vector<ClassLoad> classes(topology.classes().size());
  std::vector<Seconds> sums(classes.size());
  for (std::size_t c = 0; c < classes.size(); ++c) classes[c].links = links[c];
  for (const LinkUse& use : loads.uses) {
    const int link_class = topology.links()[use.link.index()].link_class;
    const auto index = static_cast<std::size_t>(link_class);
    ClassLoad& load = classes[index];
    load.link_class = link_class;
    ++load.used;
    load.bytes += use.bytes.value;
    sums[index] += use.time;
    if (use.time <= load.busiest_time) continue;
    load.busiest = use.link;
    load.busiest_bytes = use.bytes;
    load.busiest_time = use.time;
  }
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].used > 0)
      classes[c].over_mean = classes[c].busiest_time * classes[c].links / sums[c];
  }
  std::erase_if(classes, [](const ClassLoad& load) { return load.used == 0; });
  return classes;
}

/// `overhead`: of the exchanges one after the other.
void describe_links(PhaseReport& phase, const LinkLoads& loads, Seconds overhead,
                    const Topology& topology, const std::vector<int>& links) {
  phase.classes = class_loads(loads, topology, links);
  Seconds most(0);
  for (std::size_t c = 0; c < phase.classes.size(); ++c) {
    if (phase.classes[c].busiest_time < most) continue;  // the outermost of equals
    most = phase.classes[c].busiest_time;
    phase.busiest_class = static_cast<int>(c);
  }
  phase.closed_form = exchange_time(loads);
  phase.closed_form.overhead = overhead;
  phase.closed_form.latency = phase.closed_form.latency * phase.rounds;
}

Seconds nanoseconds_of(const Kernel& minimum) {
  return Seconds(1e-9 * static_cast<double>(std::get<HostWork>(minimum).nanoseconds));
}

/// A GPU is busy from the last join of an exchange until it has ended, and its minimum time with
/// it; what overlaps (the minimum time of a round with the next one) counts once.
PhaseTime time_in_layer(const Plan& plan, const Ops& ops, const Run& run) {
  struct Busy {
    Seconds sum, until, minimum_until;
  };
  std::map<GpuId, Busy> busy;
  Seconds waited(0);
  for (const OpId id : ops) {
    const auto& intervals = run.timeline.ops[id.index()];
    const Group& group = plan[id].group;
    if (plan[id].kernels() != nullptr) {  // a minimum time
      for (std::size_t m = 0; m < group.size(); ++m) {
        busy[group[m]].minimum_until = intervals[m].end;
      }
      continue;
    }
    Seconds start(0);
    for (const Interval& i : intervals) start = std::max(start, i.start);
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      Busy& gpu = busy[group[p]];
      const Seconds from = std::max(start, gpu.until);
      gpu.until = std::max({gpu.until, intervals[p].end, gpu.minimum_until});
      gpu.sum += std::max(Seconds(0), gpu.until - from);
      waited += start - intervals[p].start;
    }
  }
  PhaseTime time{run.by.name, Seconds(0), Seconds(0),
                 waited * (1.0 / static_cast<double>(std::max<std::size_t>(1, busy.size())))};
  for (const auto& [gpu, of_gpu] : busy) time.in_layer = std::max(time.in_layer, of_gpu.sum);
  return time;
}

PhaseReport explain_phase(const PricedPlan& priced, const Ops& ops, const std::vector<Run>& runs,
                          const std::vector<int>& links) {
  const Plan& plan = priced.plan();
  const Topology& topology = priced.topology();
  PhaseReport phase;
  phase.least_gpus = plan.gpus;
  std::set<std::vector<GpuId>> communicators;
  std::map<GpuId, int> exchanges;
  std::map<GpuId, Seconds> overheads, minimum;
  Seconds overhead;  // the largest sum of a GPU: what continues in a fused kernel has none
  LinkLoads loads;
  for (const OpId id : ops) {
    const Group& group = plan[id].group;
    if (const Kernels* kernels = plan[id].kernels()) {
      for (std::size_t m = 0; m < group.size(); ++m) {
        Seconds& sum = minimum[group[m]];
        sum += nanoseconds_of(kernels->of(m));
        phase.minimum = std::max(phase.minimum, sum);
      }
      continue;
    }
    phase.name = plan[id].label;
    phase.pass = plan[id].key.pass;
    const int members = static_cast<int>(group.size());
    phase.least_gpus = std::min(phase.least_gpus, members);
    phase.most_gpus = std::max(phase.most_gpus, members);
    communicators.insert(group.list());
    for (const GpuId gpu : group) {
      phase.rounds = std::max(phase.rounds, ++exchanges[gpu]);
      overhead = std::max(overhead, overheads[gpu] += priced[id]->alone.overhead);
    }
    add_reach(phase.reach, plan[id], topology);
    add_loads(loads, priced[id]->loads);
  }
  phase.communicators = static_cast<int>(communicators.size());
  describe_links(phase, loads, overhead, topology, links);
  for (const Run& run : runs) {
    phase.times.push_back(time_in_layer(plan, ops, run));
    phase.times.back().alone = time_alone(priced, ops, *run.by.backend);
  }
  return phase;
}

/// The ops of every phase and kernel, in order of their first one. Minimum times belong to the
/// exchange that follows them.
std::vector<Ops> groups_of(const Plan& plan) {
  std::map<std::tuple<Pass, bool, std::string>, std::size_t> index;
  std::vector<Ops> groups;
  Ops minimums;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const OpId id(static_cast<std::int64_t>(i));
    if (is_minimum_time(op)) {
      minimums.push_back(id);
      continue;
    }
    const bool exchange = op.exchange() != nullptr;
    const auto [at, added] = index.try_emplace({op.key.pass, exchange, op.label}, groups.size());
    if (added) groups.emplace_back();
    Ops& group = groups[at->second];
    if (exchange) group.insert(group.end(), minimums.begin(), minimums.end()), minimums.clear();
    group.push_back(id);
  }
  return groups;
}

/// The exchanges of every pass and stage, with their minimum times, against the least that must
/// move; those without rows (metadata) count in time and bytes.
std::vector<BoundReport> explain_bounds(const PricedPlan& priced,
                                        const std::vector<NamedBackend>& backends) {
  const Plan& plan = priced.plan();
  const Topology& topology = priced.topology();
  const std::vector<TokenNeeds> needs = needs_of(plan);
  std::vector<BoundReport> reports;
  for (const auto& [key, ops] : exchanges_of_stages(plan)) {
    const auto& [layer, pass, stage] = key;
    BoundReport report{pass, stage, Bytes(0), Bytes(0), {}, {}, {}};
    Seconds least_overhead(std::numeric_limits<double>::infinity());
    ReachTotals reach;
    for (const OpId id : ops) {
      if (plan[id].exchange() == nullptr) continue;  // a minimum time
      const Exchange& exchange = *plan[id].exchange();
      add_reach(reach, plan[id], topology);
      least_overhead = std::min(least_overhead, priced[id]->alone.overhead);
      if (exchange.rows.empty()) continue;
      const Bytes row = row_bytes(exchange);
      if (report.row.value == 0 || row < report.row) report.row = row;
    }
    const bool carried = plan.transports.tokens && topology.measured_with().empty();
    report.overhead = carried ? least_overhead : topology.exchange_overhead();
    report.between_hosts = reach.bytes[2];
    report.least = lower_bound(topology, needs, report.row, stage == Stage::combine);
    for (const NamedBackend& by : backends) {
      report.achieved.emplace_back(by.name, time_alone(priced, ops, *by.backend));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

std::string bound_by(const PhaseReport& phase, const Topology& topology) {
  const ExchangeTime& time = phase.closed_form;
  if (phase.minimum > time.total()) return "minimum time";
  if (time.transfer >= time.overhead && time.transfer >= time.latency && phase.busiest_class >= 0) {
    const ClassLoad& busiest = phase.classes[static_cast<std::size_t>(phase.busiest_class)];
    return topology.classes()[static_cast<std::size_t>(busiest.link_class)].name;
  }
  return time.latency > time.overhead ? "latency" : "overhead";
}

Explanation explain(const PricedPlan& priced, const GpuModels& gpus,
                    const std::vector<NamedBackend>& backends) {
  const Plan& plan = priced.plan();
  const std::vector<Ops> groups = groups_of(plan);
  Explanation result;
  std::vector<Run> runs;
  for (const NamedBackend& by : backends) {
    runs.push_back({by, by.backend->run(priced)});
    result.layer.emplace_back(by.name, runs.back().timeline.makespan);
  }
  const std::vector<int> links = links_by_class(priced.topology());
  for (const Ops& ops : groups) {
    const bool phase = plan[ops.back()].exchange() != nullptr;
    result.order.push_back({phase, phase ? result.phases.size() : result.kernels.size()});
    if (phase) {
      result.phases.push_back(explain_phase(priced, ops, runs, links));
    } else {
      result.kernels.push_back(explain_kernel(plan, ops, gpus));
    }
  }
  result.bounds = explain_bounds(priced, backends);
  result.fused = fullest_fused_memory(plan, runs.front().timeline);
  return result;
}

}  // namespace moesim
