// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gpu_changes.h"

#include <cmath>

namespace moesim {
namespace {

void change(FittedKernels::ByType& fitted, double launch) {
  for (auto& [type, roofline] : fitted) roofline.launch = roofline.launch * launch;
}

/// Both GPUs without their measured tables.
struct Rooflines {
  const GpuModel& before;
  const GpuModel& after;
  double flops;

  double ratio(const Kernel& kernel, const OpType& op) const {
    const auto type = type_of(kernel);
    if (type && !before.peak.contains(*type)) return 1 / flops;
    const Seconds time = before.time(kernel, op);
    return time > Seconds(0) ? after.time(kernel, op) / time : 1;
  }
};

TimeCurve changed(const TimeCurve& curve, auto ratio) {
  TimeCurve result;
  for (const auto& [size, time] : curve.points()) result.add(size, time * ratio(size));
  return result;
}

void change(GemmTable& table, const Rooflines& rooflines) {
  const OpType op = table.op.value_or(OpType{});
  for (auto& [count, curve] : table.groups) {
    const auto groups = static_cast<std::size_t>(std::llround(count));
    curve = changed(curve, [&, groups](double rows) {
      const std::vector<std::int64_t> m(groups, std::llround(rows));
      return rooflines.ratio(GroupedGemm{m, table.n, table.k, table.type}, op);
    });
  }
}

void change(MemoryTable& table, const Rooflines& rooflines) {
  table.bytes = changed(table.bytes, [&](double bytes) {
    return rooflines.ratio(MemoryBound{Bytes(std::llround(bytes)), Bytes(0)}, OpType{});
  });
}

}  // namespace

GpuModel changed(const GpuModel& gpu, const GpuFactors& factors) {
  GpuModel before = gpu;
  before.tables = {};
  before.training_traffic = {};  // measured kernels are without
  GpuModel after = before;
  for (auto& [type, rate] : after.peak) rate = FlopsPerSecond(rate.value * factors.flops);
  after.memory_bandwidth = BytesPerSecond(gpu.memory_bandwidth.value * factors.memory_bandwidth);
  after.launch_overhead = gpu.launch_overhead * factors.launch;
  after.host_time = gpu.host_time * factors.host;
  after.host = gpu.host.slower(factors.host);
  change(after.fitted.gemm, factors.launch);
  change(after.fitted.grouped_gemm, factors.launch);
  for (auto& [engine, experts] : after.fitted.engine_experts) change(experts, factors.launch);
  change(after.fitted.tiles, factors.launch);
  change(after.fitted.attention, factors.launch);
  change(after.fitted.decode, factors.launch);
  change(after.fitted.latent_decode, factors.launch);
  KernelTables tables = gpu.tables;
  const Rooflines rooflines{before, after, factors.flops};
  for (GemmTable& table : tables.gemm) change(table, rooflines);
  for (MemoryTable& table : tables.memory_bound) change(table, rooflines);
  after.tables = std::move(tables);
  after.training_traffic = gpu.training_traffic;
  return after;
}

}  // namespace moesim
