// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/link_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/counted.h"
#include "sim/base/figures.h"
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

}  // namespace moesim
