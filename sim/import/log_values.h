// SPDX-License-Identifier: Apache-2.0
// The values of a line of a log, and what the line calls them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// A value of a line and the words before it, the last first: {"ids", "expertids"}.
struct NamedValue {
  std::vector<std::string> names;
  std::string text;        // a number, a list, a share such as "20%", or the name of a module
  bool follows = false;    // the value before it, with nothing but commas and blanks between
  bool assigned = false;   // its name and '=' or ':' are before it
  std::string after = "";  // the word after it, if only blanks are between: "5 tokens"
  bool is_word = false;    // text that is assigned to a name that takes it
};

/// `takes_word`: whether what is assigned to a name, "request_id=chatcmpl-05", is one word.
using TakesWord = std::function<bool(const std::string& name)>;
std::vector<NamedValue> values_of_line(std::string_view line, const TakesWord& takes_word = {});

/// Whether a value is the name of a module with a number, "model.layers.3.mlp".
bool is_module(const NamedValue& value);

/// Letters and underscores; digits.
bool is_word_letter(char c);
bool is_digit(char c);

}  // namespace moesim
