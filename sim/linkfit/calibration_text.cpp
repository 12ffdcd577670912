// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/calibration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/linkfit/robust.h"

namespace moesim {
namespace {

std::string table_yaml(const GemmTable& table) {
  std::string yaml = fmt::format("  - op: {}\n    n: {}\n    k: {}\n    type: {}\n    points:\n",
                                 quoted(name_of(table.op)), table.n, table.k, name_of(table.type));
  for (const auto& [groups, curve] : table.groups) {
    for (const auto& [m, time] : curve.points()) {
      yaml += fmt::format("      - {{groups: {:.0f}, m: {:.0f}, time: {}}}\n", groups, m,
                          microseconds(time));
    }
  }
  return yaml;
}

std::string table_yaml(const MemoryTable& table) {
  std::string yaml = fmt::format("  - op: {}\n    points:\n", quoted(name_of(table.op)));
  for (const auto& [bytes, time] : table.bytes.points()) {
    yaml += fmt::format("      - {{bytes: {:.0f} B, time: {}}}\n", bytes, microseconds(time));
  }
  return yaml;
}

/// Exact: "64 KiB", "1000 B".
std::string exact(Bytes bytes) {
  if (bytes.value % (1 << 20) == 0) return fmt::format("{} MiB", bytes.value >> 20);
  if (bytes.value % (1 << 10) == 0) return fmt::format("{} KiB", bytes.value >> 10);
  return fmt::format("{} B", bytes.value);
}

std::string file_name(const Log& log) {
  return std::filesystem::path(log.file).filename().string();
}

/// Median and largest error at sizes left out of the table, without signs.
std::string left_out(const LinkFit& fit) {
  std::vector<double> errors = fit.left_out();
  if (errors.empty()) return "unknown";
  for (double& e : errors) e = std::abs(e);
  return fmt::format("{} typically, {} at worst", percent(upper_median(errors)),
                     percent(std::ranges::max(errors)));
}

/// "2.4 % typically, 11.4 % at worst" of the sizes held out.
std::string errors_of(const HoldOut& held, bool all) {
  return fmt::format("{} typically, {} at worst", percent(held.typical(all)),
                     percent(held.worst(all)));
}

std::string held_out_yaml(const HoldOut& held) {
  return fmt::format(
      "  held_out: every {} of {} sizes in turn\n"
      "  held_out_sound: {}\n"
      "  held_out_error: {}\n"
      "  held_out_error_with_contradicted: {}\n",
      held.every, held.sizes.size(), held.sound(), errors_of(held, false), errors_of(held, true));
}

/// At most 20, the worst ones, by size.
std::vector<HoldOut::Size> worst_of(std::vector<HoldOut::Size> sizes) {
  std::ranges::stable_sort(sizes, std::greater(),
                           [](const HoldOut::Size& s) { return std::abs(s.error); });
  if (sizes.size() > 20) sizes.resize(20);
  std::ranges::sort(sizes, {}, &HoldOut::Size::bytes);
  return sizes;
}

std::string held_out_report(const HoldOut& held) {
  std::string text = fmt::format(
      "\nof {} sizes every {} held out in turn,\nfit against the median of the times of each:\n"
      "{} of the {} that nothing contradicts,\n{} of all\n\n",
      held.sizes.size(), held.every, errors_of(held, false), held.sound(), errors_of(held, true));
  text +=
      fmt::format("{:>13}  {:>10}  {:>8}  {:>11}\n", "held out", "measured", "fit", "times apart");
  for (const HoldOut::Size& s : worst_of(held.sizes)) {
    text += fmt::format("{:>13}  {:>10}  {:>+6.1f} %  {:>9.1f} %{}\n", exact(s.bytes),
                        microseconds(s.time), 100 * s.error, 100 * s.apart,
                        s.contradicted ? "  contradicted" : "");
  }
  return text;
}

std::string latency_text(const LinkFit& fit, int rounds) {
  if (fit.knots.size() <= 1) return "not measured";
  const std::string links = "measured; of one link, two on a route";
  return rounds == 1 ? links : fmt::format("{}, {} rounds", links, rounds);
}

}  // namespace

std::string kernel_tables_yaml(const KernelTables& tables, const std::string& comment) {
  std::string yaml;
  if (!tables.gemm.empty()) yaml += fmt::format("gemm:  # {}\n", comment);
  for (const GemmTable& table : tables.gemm) yaml += table_yaml(table);
  if (!tables.memory_bound.empty()) {
    yaml += fmt::format("memory_bound:  # {}, by bytes read and written\n", comment);
  }
  for (const MemoryTable& table : tables.memory_bound) yaml += table_yaml(table);
  return yaml;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string fixed_spread_yaml(const LinkFit& fit) {
  return fit.fixed_spread ? fmt::format("  fixed_time_95: {}\n", microseconds(*fit.fixed_spread))
                          : "";
}

std::string calibration_yaml(const Calibrated& result, const CalibrationText& text) {
  const auto& [fit, held, logs] = result;
  const int rounds = rounds_of(logs.front().setting);
  const Seconds latency = std::max(Seconds(0), fit.fixed - text.start.time) * (0.5 / rounds);
  std::string yaml = fmt::format(
      "# Written by `moesim calibrate`; see docs/calibration.md.\n"
      "name: {}\n"
      "source: {}\n"
      "latency: {}  # {}\n"
      "{}"
      "bandwidth:  # measured; by the bytes that one exchange puts on the link\n",
      quoted(text.name),
      quoted(text.source.empty() ? logs.front().what : logs.front().what + "; " + text.source),
      microseconds(latency), latency_text(fit, rounds),
      text.nominal.empty()
          ? ""
          : fmt::format("nominal: {}  # given; of the measured link\n", text.nominal));
  for (const LinkFit::Knot& knot : fit.knots) {
    yaml += fmt::format("  - {{size: {}, rate: {:.5g} GB/s}}\n", exact(knot.point.size),
                        knot.point.rate.value / 1e9);
  }
  yaml += fmt::format(
      "fit:  # derived from the residuals\n"
      "  fixed_time: {}\n"
      "{}"
      "  exchange_overhead_elsewhere: {}{}\n"
      "  samples: {}\n"
      "  rejected: {}\n"
      "  typical_error: {}\n"
      "  worst_error: {}\n"
      "  error_of_a_point_left_out: {}\n"
      "  worst_error_of_a_line: {}\n"
      "{}"
      "provenance:  # of the measurements\n"
      "  command: {}\n"
      "  logs:\n",
      microseconds(fit.fixed), fixed_spread_yaml(fit), microseconds(text.start.time),
      text.start.transport.empty() ? "" : fmt::format("  # {} starts", text.start.transport),
      fit.samples, fit.rejected, percent(fit.typical()), percent(fit.worst()), left_out(fit),
      percent(fit.line_error), held ? held_out_yaml(*held) : "", quoted(text.command));
  for (const Log& log : logs) {
    const auto known = [](const std::string& s) { return quoted(s.empty() ? "unknown" : s); };
    yaml += fmt::format(
        "    - file: {}\n      xxh3: {}\n      kind: {}\n      what: {}\n      gpu: {}\n"
        "      library: {}\n      date: {}\n      results_checked: {}\n",
        quoted(file_name(log)), quoted(log.hash), quoted(log.kind), quoted(log.what),
        known(log.gpu), known(log.library), known(log.date), log.checked);
    if (log.notes.empty()) continue;
    yaml += "      notes:\n";
    for (const std::string& note : log.notes) yaml += fmt::format("        - {}\n", quoted(note));
  }
  return yaml;
}

std::string calibration_report(const Calibrated& result, const CalibrationText::Start& start) {
  const auto& [fit, held, logs] = result;
  std::string text;
  for (const Log& log : logs) {
    text += fmt::format("{}: {}, {}{}{}\n", file_name(log), log.kind, log.what,
                        log.runs == 1 ? "" : fmt::format(", {}", counted(log.runs, "test")),
                        log.checked ? "" : ", results not checked");
    for (const std::string& note : log.notes) text += fmt::format("  note: {}\n", note);
  }
  text += fmt::format(
      "\n{}, {} rejected as outliers; fixed time {}{}{}\n\n",
      counted(fit.samples + fit.rejected, "time"), fit.rejected, microseconds(fit.fixed),
      fit.fixed_spread ? " +- " + microseconds(*fit.fixed_spread) : "",
      start.transport.empty() ? ""
                              : fmt::format(",\n{} takes {} of it to start", start.transport,
                                            microseconds(start.time)));
  text += fmt::format("{:>12}  {:>12}  {:>7}  {:>8}\n", "bytes on link", "rate", "samples", "95 %");
  for (const LinkFit::Knot& knot : fit.knots) {
    text += fmt::format("{:>13}  {:>12}  {:>7}  {:>8}\n", exact(knot.point.size),
                        fmt::format("{:.5g} GB/s", knot.point.rate.value / 1e9), knot.samples,
                        knot.spread < 0 ? "-" : "+-" + percent(knot.spread));
  }
  const auto worst = std::ranges::max_element(
      fit.residuals, {}, [](const LinkFit::Residual& r) { return std::abs(r.error); });
  text += fmt::format(
      "\nfit against the median of each size: typically {} off,\nat worst {} ({} at {})\n"
      "a point left out of the table: {}\n"
      "the best straight line would be off by up to {}\n",
      percent(fit.typical()), percent(fit.worst()), percent(worst->error), exact(worst->bytes),
      left_out(fit), percent(fit.line_error));
  if (held) text += held_out_report(*held);
  return text;
}

}  // namespace moesim
