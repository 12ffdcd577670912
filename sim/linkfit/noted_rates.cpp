// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/noted_rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/topology/read/plausible.h"

namespace moesim {
namespace {

BytesPerSecond most_of_link(const std::string& nominal, const Log& log) {
  NumberWithUnit value;
  if (!nominal.empty() && split_unit(nominal, value)) {
    return BytesPerSecond(value.number * bandwidth_scale(value.unit));
  }
  return log.reach == LinkReach::host ? most_of_nvlink(log.gpu) : most_of_nics();
}

}  // namespace

void note_rates(const LinkFit& fit, const std::string& nominal, Log& log) {
  const BytesPerSecond most = most_of_link(nominal, log);
  const auto fastest = std::ranges::max_element(
      fit.knots, {}, [](const LinkFit::Knot& knot) { return knot.point.rate; });
  constexpr double tolerance = 1.1;
  if (fastest->point.rate.value <= tolerance * most.value) return;
  log.notes.push_back(fmt::format(
      "rates up to {:.5g} GB/s, at {}, are more than such a link has ({}): times next to the fixed "
      "{} tell no rate, or the link is another",
      fastest->point.rate.value / 1e9, to_string(fastest->point.size), to_string(most),
      to_string(fit.fixed)));
}

}  // namespace moesim
