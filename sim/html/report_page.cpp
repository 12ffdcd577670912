// SPDX-License-Identifier: Apache-2.0
#include "sim/html/report_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/html/page_text.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> shown_formats = {"moesim-result", "moesim-iterations",
                                                "moesim-validation", "moesim-sweep"};

Json document_of(const ReportedResult& result) {
  Json document = parse_json(result.json, {result.name});
  const std::string format =
      document.is_object() ? document.value("format", std::string()) : std::string();
  for (const std::string& known : shown_formats) {
    if (format == known) return document;
  }
  throw error_in(
      result.name,
      format.empty() ? "this is no result of moesim"
                     : fmt::format("a report cannot show '{}'", format),
      fmt::format("reports show what 'run', 'compare' and 'validate' write with --json, and "
                  "files of sweeps: {}",
                  fmt::join(shown_formats, ", ")));
}

/// JSON that ends no script element and begins no comment, whatever its strings hold.
std::string text_in_script(const Json& json) {
  std::string text;
  for (const char c : json.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report_page(const std::vector<ReportedResult>& results, std::string_view version) {
  Json shown = Json::array();
  for (const ReportedResult& r : results) {
    shown.push_back({{"name", r.name}, {"document", document_of(r)}});
  }
  const Json report = {{"format", "moesim-report"},
                       {"format_version", 1},
                       {"moesim", version},
                       {"results", std::move(shown)}};
  return fmt::format("{}{}{}", page_before_results, text_in_script(report), page_after_results);
}

bool report_has_charts() { return page_has_charts; }

}  // namespace moesim
