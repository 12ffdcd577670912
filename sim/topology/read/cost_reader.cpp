// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/cost_reader.h"

#include <fmt/format.h>

#include "sim/base/units.h"

namespace moesim {
namespace {

/// A quantity that a topology states of a GPU; beyond `most` its unit is mistyped.
struct OfGpu {
  const char* what;
  const char* unit;
  double scale_of_kilo;  // of the unit with a k before it; 0: there is none
  double most;
};

constexpr OfGpu price_of_gpu{"a price of a GPU such as 2.5 $/h", "$/h", 0, 1e4};
constexpr OfGpu power_of_gpu{"a power of a GPU such as 700 W", "W", 1e3, 1e5};

std::optional<double> read_of_gpu(const YamlMap& map, const std::string& key, const OfGpu& of) {
  const auto value = map.find(key);
  if (!value) return std::nullopt;
  NumberWithUnit given;
  if (!value->is_scalar() || !split_unit(value->string(), given)) {
    value->error(fmt::format("'{}' is not a number with a unit", value->path()), of.what);
    return std::nullopt;
  }
  const bool kilo = of.scale_of_kilo > 0 && given.unit == fmt::format("k{}", of.unit);
  if (!kilo && given.unit != of.unit) {
    value->error(given.unit.empty()
                     ? fmt::format("'{}' needs a unit", value->path())
                     : fmt::format("'{}': unknown unit '{}'", value->path(), given.unit),
                 of.what);
    return std::nullopt;
  }
  const double amount = given.number * (kilo ? of.scale_of_kilo : 1);
  if (amount > 0 && amount <= of.most) return amount;
  value->error(fmt::format("'{}' is {}, must be above 0 and at most {:.0f} {}", value->path(),
                           value->string(), of.most, of.unit));
  return std::nullopt;
}

}  // namespace

GpuCosts read_costs(const YamlMap& map) {
  return {read_of_gpu(map, "price", price_of_gpu), read_of_gpu(map, "power", power_of_gpu)};
}

}  // namespace moesim
