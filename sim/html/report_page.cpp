// SPDX-License-Identifier: Apache-2.0
#include "sim/html/report_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.h"
#include "sim/html/shown_document.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json document_of(const ReportedResult& result) {
  Json document = parse_json(result.json, {result.name});
  check_shown(document, result.name);
  return document;
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

std::string report_page(const std::vector<ReportedResult>& results, std::string_view version,
                        bool lossy) {
  Json shown = Json::array();
  for (const ReportedResult& r : results) {
    shown.push_back({{"name", r.name}, {"document", document_of(r)}});
  }
  const Json report = {{"format", "moesim-report"},
                       {"format_version", 1},
                       {"moesim", version},
                       {"lossy", lossy ? "allow" : "never"},
                       {"results", std::move(shown)}};
  return fmt::format("{}{}{}", page_before_results, text_in_script(report), page_after_results);
}

bool report_has_charts() { return page_has_charts; }

}  // namespace moesim
