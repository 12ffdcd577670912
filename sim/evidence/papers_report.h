// SPDX-License-Identifier: Apache-2.0
// Judged tables for people and programs.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/judge.h"
#include "sim/print/table.h"

namespace moesim {

/// `version` is that of the program.
Printout papers_text(const std::vector<JudgedTable>& tables, const std::string& version);

/// A value of the figure as people read it: "1.44", "3.2 ms", "58 GB/s".
std::string figure_words(const PaperFigure& figure, double value);

/// A line for each figure that is not simulated, and why.
std::string not_predicted_lines(const std::vector<JudgedTable>& tables);

/// "3 of 4", or `none` where there is no pair.
std::string order_words(const OrderCount& order, const std::string& none);

/// Schema: docs/papers.md.
std::string papers_json(const std::vector<JudgedTable>& tables, const std::string& version);

/// The content of a page with the tables written anew between its marks: headlines if these are
/// all, iterations if these are all, else the others. Throws Error where it has none.
std::string papers_page(const std::string& file, const std::string& page,
                        const std::vector<JudgedTable>& tables);

/// The page with `written` between its marks. Throws Error where it has none.
std::string with_written(const std::string& file, const std::string& page,
                         const std::string& written);

inline constexpr const char* papers_state_format = "moesim-papers-state";
/// The errors by table and figure: what later runs are held against. Of iterations the errors of
/// speedups between rows, too.
std::string papers_state(const std::vector<JudgedTable>& tables);

/// What has grown by more than `slack` against a stored papers_state; what is not in both is passed
/// over. Throws Error if `stored` is none.
std::vector<std::string> grown_errors(const std::string& file, const std::string& stored,
                                      const std::vector<JudgedTable>& tables, double slack);

}  // namespace moesim
