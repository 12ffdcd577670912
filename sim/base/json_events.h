// SPDX-License-Identifier: Apache-2.0
// The receiver of parse_json's events, for documents that are too large for a tree: a reader that
// sees one event at a time keeps only what it needs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.h"

namespace moesim {

/// Ignores everything; override what is needed. Returning false ends the parsing. Syntax errors end
/// here, because parse_json reports them with their place.
class JsonEvents : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(std::string&) override { return true; }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& reason) final;

 private:
  friend void parse_json(std::string_view text, const JsonPlace& place, JsonEvents& events);
  std::size_t position_ = 0;  // bytes read before the syntax error
  std::string reason_;        // of the syntax error; empty: none
};

}  // namespace moesim
