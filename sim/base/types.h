// SPDX-License-Identifier: Apache-2.0
// Distinct ids and physical quantities: mixing two of them up does not compile.
#pragma once

#include <compare>
#include <cstdint>

namespace moesim {

/// A zero-based index that only compares with indices of the same kind.
template <class Tag>
struct Id {
  std::int32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

using GpuId = Id<struct GpuTag>;        // a rank: one GPU of the cluster
using ExpertId = Id<struct ExpertTag>;  // a logical routed expert of one layer
using SlotId = Id<struct SlotTag>;      // a place on a GPU that holds one expert of one layer
using VertexId = Id<struct VertexTag>;  // a vertex of the topology graph
using LinkId = Id<struct LinkTag>;      // a directed link of the topology graph
using OpId = Id<struct OpTag>;          // an op of a plan
using TokenId = Id<struct TokenTag>;    // a token of one step

/// A number with a dimension; quantities of one kind add, compare and scale.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  constexpr bool operator==(const Quantity&) const = default;
  // Not by <=>, whose three-way result of two doubles takes several comparisons.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.value < b.value; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.value > b.value; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.value <= b.value; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.value >= b.value; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;              // exact
using Seconds = Quantity<struct SecondsTag, double>;                // s
using Flops = Quantity<struct FlopsTag, double>;                    // floating-point operations
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;  // 1 GB/s = 1e9 B/s
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;  // 1 TFLOP/s = 1e12 flop/s

constexpr Seconds operator/(Bytes b, BytesPerSecond w) {
  return Seconds(static_cast<double>(b.value) / w.value);
}
constexpr Seconds operator/(Flops f, FlopsPerSecond w) { return Seconds(f.value / w.value); }

}  // namespace moesim
