// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/kernel_fit.h"

#include <algorithm>
#include <cmath>

#include "realhw/calibrate/kernel_plans.h"

namespace moesim {
namespace {

using Samples = std::vector<double>;  // seconds

/// In place of the name of an op: a table for all of them.
constexpr const char* any_op = "";

struct GemmKey {
  std::string op;
  std::int64_t n, k;
  DataType type;
  auto operator<=>(const GemmKey&) const = default;
};
struct GemmPoint {
  std::int64_t groups, m;
  auto operator<=>(const GemmPoint&) const = default;
};

/// What was measured of one GPU model.
struct MeasuredKernels {
  std::map<GemmKey, std::map<GemmPoint, Samples>> gemm;
  std::map<std::string, std::map<std::int64_t, Samples>> memory;

  void add(const Op& op, const Kernel& kernel, Seconds time) {
    if (time.value <= 0) return;
    if (const auto* product = std::get_if<GroupedGemm>(&kernel)) {
      std::int64_t groups = 0, rows = 0;
      for (const std::int64_t m : product->m) groups += m > 0, rows += m;
      gemm[{name_of(op.key.type()), product->n, product->k, product->type}][{groups, rows / groups}]
          .push_back(time.value);
    } else if (std::holds_alternative<MemoryBound>(kernel)) {
      const std::string name = op.key.kind == OpKind::probe ? any_op : name_of(op.key.type());
      memory[name][memory_traffic_of(kernel).value].push_back(time.value);
    }
  }
};

/// Takes in the medians and their spread.
Seconds median_of(const Samples& samples, GpuFit& fit, std::vector<double>& spreads) {
  const Robust time = robust_median(samples);
  fit.kept += time.kept;
  fit.rejected += time.rejected;
  spreads.push_back(time.spread);
  return Seconds(time.value);
}

void leave_out(const GemmTable& table, std::vector<double>& errors) {
  for (const auto& [groups, curve] : table.groups) {
    const auto& points = curve.points();
    for (auto at = points.begin(); at != points.end(); ++at) {
      if (at == points.begin() || std::next(at) == points.end()) continue;
      TimeCurve others;
      for (const auto& [m, time] : points) {
        if (m != at->first) others.add(m, time);
      }
      errors.push_back(std::abs(others.at(at->first) / at->second - 1));
    }
  }
}

GpuFit fit_of(const MeasuredKernels& measured) {
  GpuFit fit;
  std::vector<double> spreads, errors;
  Seconds least(1);
  for (const auto& [key, points] : measured.gemm) {
    GemmTable table{find_op_type(key.op), key.n, key.k, key.type, {}};
    for (const auto& [point, samples] : points) {
      const Seconds time = median_of(samples, fit, spreads);
      table.groups[static_cast<double>(point.groups)].add(static_cast<double>(point.m), time);
      const Flops flops(2.0 * static_cast<double>(point.groups * point.m * key.n * key.k));
      FlopsPerSecond& peak = fit.model.peak[key.type];
      peak = std::max(peak, FlopsPerSecond(flops.value / time.value));
      least = std::min(least, time);
    }
    leave_out(table, errors);
    fit.model.tables.gemm.push_back(std::move(table));
  }
  for (const auto& [op, points] : measured.memory) {
    MemoryTable table{find_op_type(op), {}};
    for (const auto& [bytes, samples] : points) {
      const Seconds time = median_of(samples, fit, spreads);
      table.bytes.add(static_cast<double>(bytes), time);
      const BytesPerSecond rate(static_cast<double>(bytes) / time.value);
      fit.model.memory_bandwidth = std::max(fit.model.memory_bandwidth, rate);
      least = std::min(least, time);
    }
    fit.model.tables.memory_bound.push_back(std::move(table));
  }
  fit.model.launch_overhead = least;
  if (!spreads.empty()) fit.spread = robust_median(spreads).value;
  if (!errors.empty()) {
    fit.left_out_typical = robust_median(errors).value;
    fit.left_out_worst = *std::ranges::max_element(errors);
  }
  return fit;
}

/// What one GPU, or the job, did under one name.
struct Chain {
  Seconds start{1e300}, end{-1e300};
  void add(const Interval& interval) {
    start = std::min(start, interval.start);
    end = std::max(end, interval.end);
  }
};

/// Nothing if too little ran at the same time.
void add_factor(const Chain& alone, const Chain& beside, const Chain& other, Samples& factors) {
  const double shared =
      (std::min(beside.end, other.end) - std::max(beside.start, other.start)).value;
  const double took = (beside.end - beside.start).value;
  const double more = took - (alone.end - alone.start).value;
  if (took <= 0 || shared < took / 3 || more >= shared) return;
  factors.push_back(std::max(1.0, 1 / (1 - more / shared)));
}

}  // namespace

OverlapFit fit_overlap(const MicroPlan& micro, const Times& times) {
  Samples compute, communication;
  for (const Timeline& timeline : timelines_of(times, micro.name)) {
    using Chains = std::map<OpKey, Chain>;
    Chains exchanges, all_kernels;
    std::map<GpuId, Chains> kernels;
    for (std::size_t id = 0; id < micro.plan.ops.size(); ++id) {
      const Op& op = micro.plan.ops[id];
      for (std::size_t m = 0; m < op.group.size(); ++m) {
        const Interval& interval = timeline.ops[id][m];
        if (op.kernels() == nullptr) {
          exchanges[op.key].add(interval);
        } else {
          kernels[op.group[m]][op.key].add(interval);
          all_kernels[op.key].add(interval);
        }
      }
    }
    const OpKey alone = key_of(Probe::alone), beside = key_of(Probe::beside);
    for (auto& [gpu, chains] : kernels) {
      add_factor(chains[alone], chains[beside], exchanges[beside], compute);
    }
    add_factor(exchanges[alone], exchanges[beside], all_kernels[beside], communication);
  }
  OverlapFit fit;
  if (!compute.empty()) fit.compute = robust_median(compute);
  if (!communication.empty()) fit.communication = robust_median(communication);
  fit.factors = {std::max(1.0, fit.compute.value), std::max(1.0, fit.communication.value)};
  return fit;
}

std::map<std::string, GpuFit> fit_kernels(const Topology& topology,
                                          const std::vector<const MicroPlan*>& plans,
                                          const std::map<std::string, GpuModel>& stated,
                                          const Overlap& overlap, const Times& times) {
  std::map<std::string, MeasuredKernels> measured;
  for (const MicroPlan* micro : plans) {
    for (const Timeline& timeline : timelines_of(times, micro->name)) {
      for (std::size_t id = 0; id < micro->plan.ops.size(); ++id) {
        const Op& op = micro->plan.ops[id];
        if (op.kernels() == nullptr) continue;
        for (std::size_t m = 0; m < op.group.size(); ++m) {
          const Interval& interval = timeline.ops[id][m];
          measured[topology.gpu_model(op.group[m])].add(op, op.kernels()->of(m),
                                                        interval.end - interval.start);
        }
      }
    }
  }
  std::map<std::string, GpuFit> fits;
  for (const auto& [name, kernels] : measured) {
    GpuFit& fit = fits[name] = fit_of(kernels);
    fit.model.memory = stated.at(name).memory;
    fit.model.overlap = overlap;
  }
  return fits;
}

}  // namespace moesim
