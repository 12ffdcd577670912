// SPDX-License-Identifier: Apache-2.0
// Groups the ops of a layer into phases and kernels, simulates phases alone and inside the layer.
#include "sim/report/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/plan/slice.h"

namespace moesim {
namespace {

using Ops = std::vector<OpId>;

/// A backend's timeline of the whole layer.
struct Run {
  NamedBackend by;
  Timeline timeline;
};

Seconds time_of(const Plan& plan, const Ops& ops, const NamedBackend& by) {
  return by.backend->run(slice(plan, ops)).makespan;
}

void add_reach(ReachTotals& reach, const Exchange& exchange, const Topology& topology) {
  const auto distance = [&topology](GpuId from, GpuId to) -> std::size_t {
    if (from == to) return 0;
    return topology.host_of(from) == topology.host_of(to) ? 1 : 2;
  };
  for (int g = 0; g < exchange.traffic.ranks(); ++g) {
    for (const auto& entry : exchange.traffic.row(GpuId(g))) {
      reach.bytes[distance(GpuId(g), entry.to)] += exchange.traffic.bytes(entry);
    }
  }
  for (const RowMove& row : exchange.rows) ++reach.rows[distance(row.from, row.to)];
}

void add_loads(LinkLoads& sum, const LinkLoads& loads) {
  if (sum.bytes.empty()) {
    sum = loads;
    return;
  }
  for (std::size_t l = 0; l < loads.bytes.size(); ++l) {
    if (loads.bytes[l] == 0) continue;
    sum.first[l] = sum.bytes[l] == 0 ? loads.first[l] : std::min(sum.first[l], loads.first[l]);
    sum.bytes[l] += loads.bytes[l];
    sum.seconds[l] += loads.seconds[l];
  }
  sum.latency = std::max(sum.latency, loads.latency);
  sum.overhead = std::max(sum.overhead, loads.overhead);
}

/// The classes that carry anything; `over_mean` is filled in last, from the sum of times.
std::vector<ClassLoad> class_loads(const LinkLoads& loads, const Topology& topology) {
  std::vector<ClassLoad> classes(topology.classes().size());
  std::vector<Seconds> sums(classes.size());
  for (std::size_t l = 0; l < loads.bytes.size(); ++l) {
    const Link& link = topology.links()[l];
    const auto index = static_cast<std::size_t>(link.link_class);
    ClassLoad& load = classes[index];
    load.link_class = link.link_class;
    ++load.links;
    if (loads.bytes[l] == 0) continue;
    ++load.used;
    load.bytes += loads.bytes[l];
    const Seconds time(loads.seconds[l]);
    sums[index] += time;
    if (time <= load.busiest_time) continue;
    load.busiest = LinkId(static_cast<std::int64_t>(l));
    load.busiest_bytes = Bytes(loads.bytes[l]);
    load.busiest_time = time;
  }
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].used > 0)
      classes[c].over_mean = classes[c].busiest_time * classes[c].links / sums[c];
  }
  std::erase_if(classes, [](const ClassLoad& load) { return load.used == 0; });
  return classes;
}

void describe_links(PhaseReport& phase, const LinkLoads& loads, const Topology& topology) {
  phase.classes = class_loads(loads, topology);
  Seconds most(0);
  for (std::size_t c = 0; c < phase.classes.size(); ++c) {
    if (phase.classes[c].busiest_time < most) continue;  // the outermost of equals
    most = phase.classes[c].busiest_time;
    phase.busiest_class = static_cast<int>(c);
  }
  phase.closed_form = exchange_time(loads);
  phase.closed_form.overhead = phase.closed_form.overhead * phase.rounds;
  phase.closed_form.latency = phase.closed_form.latency * phase.rounds;
}

PhaseTime time_in_layer(const Plan& plan, const Ops& ops, const Run& run) {
  std::map<GpuId, Seconds> busy;
  Seconds waited(0);
  for (const OpId id : ops) {
    const auto& intervals = run.timeline.ops[id.index()];
    Seconds start(0);
    for (const Interval& i : intervals) start = std::max(start, i.start);
    for (std::size_t p = 0; p < intervals.size(); ++p) {
      busy[plan[id].exchange()->participants[p]] += intervals[p].end - start;
      waited += start - intervals[p].start;
    }
  }
  PhaseTime time{run.by.name, Seconds(0), Seconds(0),
                 waited * (1.0 / static_cast<double>(std::max<std::size_t>(1, busy.size())))};
  for (const auto& [gpu, seconds] : busy) time.in_layer = std::max(time.in_layer, seconds);
  return time;
}

PhaseReport explain_phase(const Plan& plan, const Ops& ops, const Topology& topology,
                          const std::vector<Run>& runs) {
  PhaseReport phase;
  phase.name = plan[ops[0]].name;
  phase.pass = plan[ops[0]].pass;
  phase.least_gpus = plan.gpus;
  std::set<std::vector<GpuId>> communicators;
  std::map<GpuId, int> exchanges;
  LinkLoads loads;
  for (const OpId id : ops) {
    const Exchange& exchange = *plan[id].exchange();
    const int members = static_cast<int>(exchange.participants.size());
    phase.least_gpus = std::min(phase.least_gpus, members);
    phase.most_gpus = std::max(phase.most_gpus, members);
    communicators.insert(exchange.participants);
    for (const GpuId gpu : exchange.participants) {
      phase.rounds = std::max(phase.rounds, ++exchanges[gpu]);
    }
    add_reach(phase.reach, exchange, topology);
    add_loads(loads, topology.loads(exchange.traffic));
  }
  phase.communicators = static_cast<int>(communicators.size());
  describe_links(phase, loads, topology);
  for (const Run& run : runs) {
    phase.times.push_back(time_in_layer(plan, ops, run));
    phase.times.back().alone = time_of(plan, ops, run.by);
  }
  return phase;
}

KernelBound bound_of(const Kernel& kernel, const GpuModel& gpu, const std::string& op) {
  const Seconds work = gpu.time(kernel, op) - gpu.launch_overhead;
  if (gpu.launch_overhead >= work) return KernelBound::launch;
  const auto* gemm = std::get_if<GroupedGemm>(&kernel);
  const Seconds memory = memory_traffic_of(kernel) / (gpu.memory_bandwidth * gpu.memory_efficiency);
  if (gemm == nullptr) return KernelBound::memory;
  const Seconds compute = flops_of(kernel) / (gpu.peak.at(gemm->type) * gpu.gemm_efficiency);
  return compute > memory ? KernelBound::compute : KernelBound::memory;
}

KernelReport explain_kernel(const Plan& plan, const Ops& ops, const GpuModels& gpus) {
  KernelReport report;
  report.name = plan[ops[0]].name;
  report.pass = plan[ops[0]].pass;
  std::map<GpuId, Seconds> busy;
  for (const OpId id : ops) {
    const Compute& compute = *plan[id].compute();
    const Seconds time = gpus[compute.gpu.index()]->time(compute.kernel, report.name);
    busy[compute.gpu] += time;
    report.mean += time * (1.0 / plan.gpus);
  }
  report.gpus = static_cast<int>(busy.size());
  report.max = Seconds(-1);
  for (const auto& [gpu, time] : busy) {
    if (time > report.max) report.max = time, report.slowest = gpu;
  }
  Seconds longest(-1);
  for (const OpId id : ops) {
    const Compute& compute = *plan[id].compute();
    if (compute.gpu != report.slowest) continue;
    report.flops += flops_of(compute.kernel);
    report.bytes += memory_traffic_of(compute.kernel);
    const GpuModel& gpu = *gpus[compute.gpu.index()];
    if (const Seconds time = gpu.time(compute.kernel, report.name); time > longest) {
      longest = time;
      report.bound = bound_of(compute.kernel, gpu, report.name);
    }
  }
  return report;
}

/// The exchanges of every pass and stage against the least that must move; those without rows
/// (metadata) count in time and bytes.
std::vector<BoundReport> explain_bounds(const Plan& plan, const Topology& topology,
                                        const std::vector<NamedBackend>& backends) {
  const std::vector<TokenNeeds> needs = needs_of(plan);
  std::map<std::pair<Pass, Stage>, Ops> groups;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const bool tokens = op.stage == Stage::dispatch || op.stage == Stage::combine;
    if (op.exchange() == nullptr || !carries_tokens(op.lane) || !tokens) continue;
    groups[{op.pass, op.stage}].emplace_back(static_cast<std::int64_t>(i));
  }
  std::vector<BoundReport> reports;
  for (const auto& [key, ops] : groups) {
    BoundReport report{key.first, key.second, Bytes(0), Bytes(0), topology.exchange_overhead(),
                       {},        {}};
    ReachTotals reach;
    for (const OpId id : ops) {
      const Exchange& exchange = *plan[id].exchange();
      add_reach(reach, exchange, topology);
      if (exchange.rows.empty()) continue;
      const Bytes row = exchange.padded
                            ? exchange.traffic.unit()
                            : Bytes(exchange.traffic.total().value / std::ssize(exchange.rows));
      if (report.row.value == 0 || row < report.row) report.row = row;
    }
    report.between_hosts = reach.bytes[2];
    report.least = lower_bound(topology, needs, report.row, key.second == Stage::combine);
    for (const NamedBackend& by : backends) {
      report.achieved.emplace_back(by.name, time_of(plan, ops, by));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

const char* name_of(KernelBound bound) {
  switch (bound) {
    case KernelBound::launch:
      return "launch";
    case KernelBound::compute:
      return "compute";
    case KernelBound::memory:
      return "memory";
  }
  return "";
}

Explanation explain(const Plan& plan, const Topology& topology, const GpuModels& gpus,
                    const std::vector<NamedBackend>& backends) {
  std::map<std::tuple<Pass, bool, std::string>, std::size_t> index;
  std::vector<Ops> groups;  // in order of their first op
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const auto [at, added] =
        index.try_emplace({op.pass, op.exchange() != nullptr, op.name}, groups.size());
    if (added) groups.emplace_back();
    groups[at->second].emplace_back(static_cast<std::int64_t>(i));
  }
  Explanation result;
  std::vector<Run> runs;
  for (const NamedBackend& by : backends) {
    runs.push_back({by, by.backend->run(plan)});
    result.layer.emplace_back(by.name, runs.back().timeline.makespan);
  }
  for (const Ops& ops : groups) {
    const bool phase = plan[ops[0]].exchange() != nullptr;
    result.order.push_back({phase, phase ? result.phases.size() : result.kernels.size()});
    if (phase) {
      result.phases.push_back(explain_phase(plan, ops, topology, runs));
    } else {
      result.kernels.push_back(explain_kernel(plan, ops, gpus));
    }
  }
  result.bounds = explain_bounds(plan, topology, backends);
  return result;
}

}  // namespace moesim
