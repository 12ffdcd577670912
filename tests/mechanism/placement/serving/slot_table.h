// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// Experts of the slots of every GPU.
inline SlotTable slot_table_of(const std::vector<std::vector<int>>& experts) {
  SlotTable table;
  for (const auto& gpu : experts) {
    table.emplace_back();
    for (const int id : gpu) table.back().emplace_back(id);
  }
  return table;
}

}  // namespace moesim
