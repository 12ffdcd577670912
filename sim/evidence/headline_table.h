// SPDX-License-Identifier: Apache-2.0
// What publications are known for: one row per claim, and why simulated figures differ.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/judge.h"
#include "sim/print/table.h"

namespace moesim {

/// A published size counts as met up to this error.
inline constexpr double headline_margin = 0.15;

/// The headlines of these tables, and of them `only` what is asked for: the name of a system or of
/// a scenario, or its beginning and *. Throws Error for a name that none has.
std::vector<PaperTable> headlines_of(std::vector<PaperTable> tables,
                                     const std::vector<std::string>& only);

struct HeadlineCount {
  int sizes = 0, met = 0;  // figures that are simulated, and those within the margin
  OrderCount orders;       // who is ahead
  int not_simulated = 0;
  /// "9 of 12 sizes within 15 %, 11 of 11 orders as published".
  std::string words() const;
};
HeadlineCount count_headlines(const std::vector<JudgedTable>& tables);

/// The table, its count, and one line per row why it differs. Nothing without headlines.
Printout headlines_text(const std::vector<JudgedTable>& tables);

/// The same table in Markdown, with its count and without the reasons.
std::string headlines_page(const std::vector<JudgedTable>& tables);

/// Every order that a source states whatever its size, and whether it holds. Nothing without any.
Printout orders_text(const std::vector<JudgedTable>& tables);

}  // namespace moesim
