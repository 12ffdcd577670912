// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/gpu_files.h"

#include <fmt/format.h>

#include "sim/base/counted.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/calibration_text.h"
#include "sim/linkfit/kernel_tables_text.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

std::string overlap_yaml(const Overlap& overlap) {
  if (!overlap.any()) return "";
  return fmt::format("overlap: {{compute: {:.4g}, communication: {:.4g}}}  # measured\n",
                     overlap.compute, overlap.communication);
}

std::string sms_yaml(int sms) {
  if (sms > 0) return fmt::format("sms: {}  # multiprocessors, as the GPUs say\n", sms);
  return "# sms is unknown: the times do not say. Add it if software takes multiprocessors.\n";
}

}  // namespace

std::string gpu_yaml(const std::string& name, const std::string& stated, const GpuFit& fit,
                     const Provenance& provenance) {
  const GpuModel& gpu = fit.model;
  std::string yaml = fmt::format(
      "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
      "name: {}\n"
      "source: {}\n"
      "memory: {} B  # as stated for {}\n"
      "memory_bandwidth: {:.5g} GB/s  # measured; the best of the tables below\n"
      "peak:  # measured; the best of the tables below\n",
      quoted(name), quoted("moesim-hw calibrate, " + provenance.date), gpu.memory.value, stated,
      gpu.memory_bandwidth.value / 1e9);
  for (const auto& [type, rate] : gpu.peak) {
    yaml += fmt::format("  {}: {:.5g} GFLOP/s\n", name_of(type), rate.value / 1e9);
  }
  yaml += fmt::format("launch_overhead: {}  # measured; the least of the tables below\n",
                      microseconds(gpu.launch_overhead));
  yaml += sms_yaml(gpu.sms) + overlap_yaml(gpu.overlap);
  yaml += kernel_tables_yaml(gpu.tables, "measured; medians over runs and ranks");
  yaml += fmt::format(
      "fit:  # derived from the times\n"
      "  samples: {}\n"
      "  rejected: {}\n"
      "  median_95: {}\n"
      "  error_of_a_gemm_left_out: {}\n"
      "  worst_error_of_a_gemm_left_out: {}\n",
      fit.kept + fit.rejected, fit.rejected, percent(fit.spread), percent(fit.left_out_typical),
      percent(fit.left_out_worst));
  return yaml + yaml_of(provenance);
}

std::string kernel_report(const std::string& name, const GpuFit& fit) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "n x k", "points", "smallest", "time", "largest", "time", "rate"}};
  for (const GemmTable& table : fit.model.tables.gemm) {
    const auto& [groups, curve] = *table.groups.rbegin();
    const auto& [least, first] = *curve.points().begin();
    const auto& [most, last] = *curve.points().rbegin();
    std::size_t points = 0;
    for (const auto& [g, c] : table.groups) points += c.points().size();
    const double flops = 2 * groups * most * static_cast<double>(table.n * table.k);
    rows.push_back({name_of(table.op), fmt::format("{} x {}", table.n, table.k),
                    std::to_string(points), fmt::format("{:.0f} x {:.0f}", groups, least),
                    to_string(first), fmt::format("{:.0f} x {:.0f}", groups, most), to_string(last),
                    to_string(FlopsPerSecond(flops / last.value))});
  }
  for (const MemoryTable& table : fit.model.tables.memory_bound) {
    const auto& points = table.bytes.points();
    const auto& [least, first] = *points.begin();
    const auto& [most, last] = *points.rbegin();
    const auto bytes = [](double b) { return to_string(Bytes(static_cast<std::int64_t>(b))); };
    rows.push_back({table.op ? name_of(table.op) : "any other", "", std::to_string(points.size()),
                    bytes(least), to_string(first), bytes(most), to_string(last),
                    to_string(BytesPerSecond(most / last.value))});
  }
  return fmt::format(
      "kernels of {}: {}, {} rejected; medians +-{} (95 %); a GEMM left out of its table: {} "
      "typically, {} at worst\n{}",
      name, counted(fit.kept + fit.rejected, "time"), fit.rejected, percent(fit.spread),
      percent(fit.left_out_typical), percent(fit.left_out_worst), align(rows, 1));
}

std::string overlap_report(const OverlapFit& fit) {
  const auto one = [](double factor, const Robust& r) {
    if (r.kept == 0) return std::string("not measured (they did not meet for long enough)");
    return fmt::format("{:.3f} times as long (+-{}, {})", factor, percent(r.spread),
                       counted(r.kept, "run"));
  };
  return fmt::format("kernels during exchanges take {}\nexchanges during kernels take {}\n",
                     one(fit.factors.compute, fit.compute),
                     one(fit.factors.communication, fit.communication));
}

}  // namespace moesim
