// SPDX-License-Identifier: Apache-2.0
// Results as one HTML page that opens without a network. What it shows: docs/report.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// What comes before and after the results, which are JSON in a script element.
extern const std::string_view page_before_results;
extern const std::string_view page_after_results;
extern const bool page_has_charts;

/// A document of `--json`, and the name of the file that it is from (empty: the run itself).
struct ReportedResult {
  std::string name;
  std::string json;
};

/// `lossy` policies may be named the fastest, too. Throws Error if a document is not a result of
/// moesim that the page can show.
std::string report_page(const std::vector<ReportedResult>& results, std::string_view version,
                        bool lossy = false);

/// Whether the charting library was there when this was built; without it a page has only tables.
bool report_has_charts();

}  // namespace moesim
