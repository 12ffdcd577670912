// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "sim/mechanism/rank_space.h"
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

/// Ranks that share a node.
inline RankLevel nodes_of(const std::vector<std::vector<int>>& ranks) {
  Communicators groups;
  for (const auto& node : ranks) groups.emplace_back(node.begin(), node.end());
  return RankLevel(std::move(groups), nullptr, {});
}

}  // namespace moesim
