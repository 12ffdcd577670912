// SPDX-License-Identifier: Apache-2.0
// JSON of files that people hand us: every mistake has its place.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace moesim {

/// What is reported with a mistake, and where the text is in its file.
struct JsonPlace {
  std::string file;
  int first_line = 1;
  std::string hint = "";
};

/// Parses one JSON value. Throws Error for text that is not JSON or not UTF-8, and for lists and
/// objects nested deeper than max_nesting.
nlohmann::ordered_json parse_json(std::string_view text, const JsonPlace& place);

/// Parses what moesim itself wrote. Throws Error for text that is not JSON.
nlohmann::ordered_json own_json(std::string_view text);

/// Parses text that may be something else: is_discarded() if it is not JSON, or nested too deeply.
nlohmann::ordered_json json_if(std::string_view text);

/// The text without what Python writes and JSON lacks: NaN, Infinity and -Infinity, as null.
std::string without_infinities(const std::string& text);

class JsonEvents;
/// The same, event by event, for files that are too large for a tree.
void parse_json(std::string_view text, const JsonPlace& place, JsonEvents& events);

}  // namespace moesim
