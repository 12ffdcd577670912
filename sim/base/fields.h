// SPDX-License-Identifier: Apache-2.0
// The fields of a struct, found by the compiler, so that a new one cannot be forgotten.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace moesim {

/// Converts to whatever a field is; never evaluated.
struct AnyField {
  std::size_t at;
  template <class T>
  operator T() const;
};

template <class T, std::size_t... At>
constexpr bool initialized_by(std::index_sequence<At...>) {
  return requires { T{AnyField{At}...}; };
}

/// Fields of an aggregate without base classes and C arrays: the most values that initialize it.
template <class T, std::size_t Count = 0>
constexpr std::size_t count_fields() {
  if constexpr (initialized_by<T>(std::make_index_sequence<Count + 1>{})) {
    return count_fields<T, Count + 1>();
  } else {
    return Count;
  }
}

/// Calls `visit` with references to all fields, in their order. A structured binding of a wrong
/// number of names does not compile.
template <class T, class Visit>
decltype(auto) with_fields(T& value, const Visit& visit) {
  constexpr std::size_t count = count_fields<std::remove_const_t<T>>();
  static_assert(1 <= count && count <= 18, "more fields than there are lines below");
  if constexpr (count == 1) {
    auto& [a] = value;
    return visit(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = value;
    return visit(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = value;
    return visit(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = value;
    return visit(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = value;
    return visit(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = value;
    return visit(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return visit(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return visit(a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return visit(a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return visit(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (count == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (count == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (count == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (count == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (count == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  } else if constexpr (count == 17) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
  } else if constexpr (count == 18) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = value;
    return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r);
  }
}

}  // namespace moesim
