// SPDX-License-Identifier: Apache-2.0
// The order of values by size: the heaviest experts, the largest remainders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace moesim {

/// Ascending, each value once.
template <class List>
void sort_once(List& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// The places of values, as ids or numbers: the largest value first, of equal ones the lowest
/// place.
template <class Place, class Values>
std::vector<Place> descending(const Values& values) {
  const auto value = [&](Place place) {
    if constexpr (requires { place.index(); }) {
      return values[place.index()];
    } else {
      return values[static_cast<std::size_t>(place)];
    }
  };
  std::vector<Place> order;
  order.reserve(std::size(values));
  for (std::int64_t i = 0; i < std::ssize(values); ++i) order.push_back(Place(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](Place a, Place b) { return value(a) > value(b); });
  return order;
}

}  // namespace moesim
