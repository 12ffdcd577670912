// SPDX-License-Identifier: Apache-2.0
// Judged iterations for people and programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/evidence/iteration_summary.h"
#include "sim/print/table.h"

namespace moesim {

/// Every row, what each table is worth, and the total. Nothing without iterations.
Printout iterations_text(const std::vector<JudgedTable>& tables);

/// The same in Markdown: the total, the tables, and the rows that are far off.
std::string iterations_page(const std::vector<JudgedTable>& tables);

/// What totals of a table of iterations call its rows.
std::string rows_words(bool serving);

/// What a row has next to its time (schema: docs/papers.md).
nlohmann::ordered_json row_json(const JudgedTable& table, std::size_t row);
nlohmann::ordered_json iteration_summary_json(const IterationSummary& sum);

/// The largest part of the mean GPU's time and the turns that were published: "experts 30 %; 1F
/// 1.15 of 1.13 s (+2 %)".
std::string parts_words(const JudgedTable& table, std::size_t row);
/// "32.44/34.10 GiB, -4.9 %; fits"; empty if nothing is published of its memory.
std::string peak_words(const JudgedTable& table, std::size_t row);

}  // namespace moesim
