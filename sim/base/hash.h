// SPDX-License-Identifier: Apache-2.0
// Hashes for tables in memory.
#pragma once

#include <cstddef>

namespace moesim {

/// A hash of whole numbers that depends on their order, for unordered containers: no file may hold
/// it, since it may change from version to version.
template <class Numbers>
constexpr std::size_t hash_in_order(const Numbers& numbers) {
  std::size_t hash = 0;
  for (const auto number : numbers) hash = hash * 1'000'003 + static_cast<std::size_t>(number) + 1;
  return hash;
}

}  // namespace moesim
