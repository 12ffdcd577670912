// SPDX-License-Identifier: Apache-2.0
// A planner in another process: requests and answers are lines of JSON, answers are not trusted.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/base/piped_command.h"
#include "sim/mechanism/loads.h"
#include "sim/plan/assignment.h"

namespace moesim {

class PlannerProcess {
 public:
  /// `limit`: of one answer.
  PlannerProcess(const std::string& command, Seconds limit);

  /// Begins; what it answers does not matter.
  void begin(const nlohmann::ordered_json& greeting);
  /// Begins: the slots of all layers before the first plan, `initial` unless it has others. From
  /// then on bytes follow the line for loads by rank if it answers {"binary": true}.
  SlotTable first(const nlohmann::ordered_json& greeting, int experts, const SlotTable& initial);
  /// {"slots": [rank][slot]} or one list for all ranks; nothing if it answers null or {}. Throws
  /// Error unless every rank has as many slots as now and every expert has one.
  /// `loads`: asked with it, [rank][expert], as lists or as the program wants them.
  std::optional<SlotTable> slots(const nlohmann::ordered_json& asked, const SlotTable& now,
                                 int experts, const LoadMatrix* loads = nullptr);
  /// {"shares": [rank][expert] of [slot, count] pairs}, slots numbered over all ranks.
  Assignment shares(const nlohmann::ordered_json& asked, Placement slots,
                    const LoadMatrix* loads = nullptr);
  /// {"ids": [token][k]}, below 0: dropped; as many rows and columns as were asked about, no
  /// expert twice in a row. Returns them flat.
  std::vector<int> ids(const nlohmann::ordered_json& asked, std::size_t rows, std::size_t columns,
                       int experts);

  Seconds took() const { return process_.took(); }

 private:
  nlohmann::ordered_json answer(const nlohmann::ordered_json& asked,
                                const LoadMatrix* loads = nullptr);
  std::optional<SlotTable> slots_in(const nlohmann::ordered_json& said, const SlotTable& now,
                                    int experts) const;
  [[noreturn]] void lied(const std::string& what) const;

  std::string command_;
  PipedCommand process_;
  bool packed_ = false;
};

nlohmann::ordered_json table_of(const SlotTable& slots);

}  // namespace moesim
