// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace moesim {

/// Ascending, each value once.
template <class List>
void sort_once(List& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace moesim
