// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/linkfit/calibration_text.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

/// Median and largest error of a point that the table is left without, without signs.
std::pair<double, double> left_out(const LinkFit& fit) {
  std::vector<double> errors = fit.left_out();
  for (double& e : errors) e = std::abs(e);
  if (errors.empty()) return {0, 0};
  return {robust_median(errors).value, *std::ranges::max_element(errors)};
}

std::string class_report(const ClassFit& c) {
  std::vector<std::vector<std::string>> rows = {
      {"bytes on link", "measured", "95 %", "rate", "fit off by"}};
  for (const ClassFit::Size& size : c.sizes) {
    const double rate = static_cast<double>(size.bytes.value) / size.time.value;
    rows.push_back({to_string(size.bytes), to_string(Seconds(size.time.value)),
                    "+-" + percent(size.time.spread), to_string(BytesPerSecond(rate)),
                    signed_percent(size.error)});
  }
  const auto [typical, worst] = left_out(c.fit);
  return fmt::format(
      "{} (by '{}'): {}, {} rejected; medians +-{} (95 %)\nan exchange takes {}{} "
      "whatever its bytes; latency of a link {}\n{}fit: typically {} off, at worst {}; a point "
      "left out: {} typically, {} at worst; a straight line: {} at worst\n",
      c.link_class, c.plan, counted(c.kept + c.rejected, "time"), c.rejected, percent(c.spread),
      to_string(c.fit.fixed),
      c.fit.fixed_spread ? fmt::format(" +- {} (95 %)", to_string(*c.fit.fixed_spread)) : "",
      to_string(c.latency), align(rows, 0), percent(c.typical), percent(c.worst), percent(typical),
      percent(worst), percent(c.fit.line_error));
}

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

std::string link_yaml(const std::string& name, const ClassFit& c, const Provenance& provenance) {
  std::string yaml = fmt::format(
      "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
      "name: {}\n"
      "source: {}\n"
      "latency: {}  # measured; of one link\n"
      "nominal: {:.6g} GB/s  # of the topology's link\n"
      "bandwidth:  # measured; by the bytes that one exchange puts on the link\n",
      quoted(name), quoted(fmt::format("links '{}', measured by '{}'", c.link_class, c.plan)),
      microseconds(c.latency), c.nominal.value / 1e9);
  for (const LinkFit::Knot& knot : c.fit.knots) {
    yaml += fmt::format("  - {{size: {} B, rate: {:.5g} GB/s}}\n", knot.point.size.value,
                        knot.point.rate.value / 1e9);
  }
  const auto [typical, worst] = left_out(c.fit);
  yaml += fmt::format(
      "fit:  # derived from the residuals\n"
      "  fixed_time: {}\n"
      "{}"
      "  samples: {}\n"
      "  rejected: {}\n"
      "  median_95: {}\n"
      "  typical_error: {}\n"
      "  worst_error: {}\n"
      "  error_of_a_point_left_out: {}\n"
      "  worst_error_of_a_point_left_out: {}\n"
      "  worst_error_of_a_line: {}\n",
      microseconds(c.fit.fixed), fixed_spread_yaml(c.fit), c.kept + c.rejected, c.rejected,
      percent(c.spread), percent(c.typical), percent(c.worst), percent(typical), percent(worst),
      percent(c.fit.line_error));
  return yaml + yaml_of(provenance);
}

std::string exchange_report(const ExchangeFit& fit) {
  if (fit.exchange_overhead.kept == 0) return "no exchanges: one rank\n";
  std::string text = fmt::format(
      "exchange overhead {} +-{} (95 %), {}, {} rejected; per peer {}\n",
      to_string(Seconds(fit.exchange_overhead.value)), percent(fit.exchange_overhead.spread),
      counted(fit.exchange_overhead.kept + fit.exchange_overhead.rejected, "time"),
      fit.exchange_overhead.rejected, to_string(Seconds(fit.peer_overhead)));
  for (const ClassFit& c : fit.classes) text += "\n" + class_report(c);
  return text;
}

std::string check_report(const std::vector<ExchangeCheck>& checks) {
  std::vector<std::vector<std::string>> rows = {
      {"exchanges", "", "count", "typically off", "worst", "at bytes of a rank"}};
  for (const ExchangeCheck& c : checks) {
    rows.push_back({c.plan, c.fitted ? "fitted" : "", std::to_string(c.exchanges),
                    percent(c.typical), signed_percent(c.worst), to_string(c.worst_bytes)});
  }
  return align(rows, 2);
}

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

void write_calibration(const CalibrationFiles& files, const ExchangeFit& exchanges,
                       const std::map<std::string, GpuFit>& gpus, const Provenance& provenance) {
  std::vector<NamedText> all;
  std::string links;
  for (const ClassFit& c : exchanges.classes) {
    all.push_back({files.link(c.link_class),
                   link_yaml(fmt::format("{}-{}", files.name(), c.link_class), c, provenance)});
    links += fmt::format("  {}: {}\n", quoted(c.link_class),
                         quoted(file_name(files.link(c.link_class))));
  }
  std::string models;
  for (const auto& [model, fit] : gpus) {
    const std::string file = files.gpu(model, gpus.size() == 1);
    const std::string stem = file_name(file);
    all.push_back({file, gpu_yaml(stem.substr(0, stem.find(".gpu.yaml")), model, fit, provenance)});
    models += fmt::format("  {}: {}\n", quoted(model), quoted(stem));
  }
  std::string yaml = fmt::format(
      "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
      "name: {}\n"
      "source: {}\n",
      quoted(files.name()), quoted("moesim-hw calibrate, " + provenance.date));
  if (exchanges.exchange_overhead.kept > 0) {
    yaml += fmt::format(
        "exchange_overhead: {}  # measured; exchanges that move nothing\n"
        "peer_overhead: {}  # measured; exchanges of one byte by their number of peers\n",
        microseconds(Seconds(exchanges.exchange_overhead.value)),
        microseconds(Seconds(exchanges.peer_overhead)));
  }
  if (!links.empty()) yaml += "links:  # measured; files next to this one, by link class\n" + links;
  if (!models.empty()) yaml += "gpus:  # measured; by the topology's GPU model\n" + models;
  yaml += yaml_of(provenance);
  all.push_back({files.cluster(), yaml});
  for (const NamedText& file : all) claim_output(file.path);
  write_files(all);
}

}  // namespace moesim
