// SPDX-License-Identifier: Apache-2.0
// Memory that is about to be filled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/base/platform.h"

namespace moesim {

/// Asks the system for large pages for what is reserved, because a page fault for every 4 KB takes
/// longer than filling it. No more than a hint, and none for less than tens of megabytes.
template <class T>
void expect_to_fill(const T* reserved, std::size_t count) {
  constexpr std::uintptr_t page = 2 << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(reserved) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(reserved + count) / page * page;
  if (end < begin + 16 * page) return;
  expect_large_pages(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace moesim
