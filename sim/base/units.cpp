// SPDX-License-Identifier: Apache-2.0
#include "sim/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "sim/base/read_number.h"

namespace moesim {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr std::array<Unit, 9> byte_units = {{{"B", 1},
                                             {"kB", 1e3},
                                             {"MB", 1e6},
                                             {"GB", 1e9},
                                             {"TB", 1e12},
                                             {"KiB", 1024.},
                                             {"MiB", 1048576.},
                                             {"GiB", 1073741824.},
                                             {"TiB", 1099511627776.}}};
constexpr std::array<Unit, 7> second_units = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
constexpr std::array<Unit, 16> bandwidth_units = {{{"B/s", 1},
                                                   {"kB/s", 1e3},
                                                   {"MB/s", 1e6},
                                                   {"GB/s", 1e9},
                                                   {"TB/s", 1e12},
                                                   {"GiB/s", 1073741824.},
                                                   {"bit/s", 1. / 8},
                                                   {"kbit/s", 1e3 / 8},
                                                   {"Mbit/s", 1e6 / 8},
                                                   {"Gbit/s", 1e9 / 8},
                                                   {"Tbit/s", 1e12 / 8},
                                                   {"bps", 1. / 8},
                                                   {"kbps", 1e3 / 8},
                                                   {"Mbps", 1e6 / 8},
                                                   {"Gbps", 1e9 / 8},
                                                   {"Tbps", 1e12 / 8}}};
constexpr std::array<Unit, 5> rate_units = {
    {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};

double scale_in(std::span<const Unit> units, std::string_view unit) {
  for (const auto& [name, scale] : units) {
    if (name == unit) return scale;
  }
  return 0;
}

std::string in_unit(double value, std::span<const Unit> units) {
  if (value == 0) return fmt::format("0 {}", units.front().first);
  const Unit* best = &units.front();
  for (const auto& unit : units) {
    if (std::abs(value) >= unit.second * 0.9995) best = &unit;
  }
  return fmt::format("{:.4g} {}", value / best->second, best->first);
}

}  // namespace

bool split_unit(std::string_view text, NumberWithUnit& out) {
  const char* end = text.data() + text.size();
  const auto [rest, failure] = read_number(text.data(), end, out.number);
  if (failure != std::errc() || !std::isfinite(out.number)) return false;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  out.unit = unit;
  return true;
}

double bytes_scale(std::string_view unit) { return scale_in(byte_units, unit); }
double seconds_scale(std::string_view unit) { return scale_in(second_units, unit); }
double bandwidth_scale(std::string_view unit) { return scale_in(bandwidth_units, unit); }
double compute_rate_scale(std::string_view unit) { return scale_in(rate_units, unit); }

std::string to_string(Seconds t) { return in_unit(t.value, std::span(second_units).first(4)); }
std::string to_string(Bytes b) {
  return in_unit(static_cast<double>(b.value), std::span(byte_units).first(5));
}
std::string to_string(BytesPerSecond b) {
  return in_unit(b.value, std::span(bandwidth_units).first(5));
}
std::string to_string(FlopsPerSecond f) { return in_unit(f.value, rate_units); }

}  // namespace moesim
