// SPDX-License-Identifier: Apache-2.0
// JSON values one after the other, however a file holds them: one, one per line, the items of a
// list, or the events of a streamed response. Memory holds one of them.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/line_file.h"
#include "sim/trace/npy.h"

namespace moesim {

using JsonElement = simdjson::dom::element;

class JsonItems {
 public:
  /// Plain or gzip. Throws Error when it cannot be read.
  explicit JsonItems(const std::string& path) : blocks_(path) {}

  /// Parses the next item; false at the end. Throws Error for what is not JSON.
  bool next();
  /// The same, but the end, too, if the last of several is cut short: its writer was killed. Throws
  /// Error if the cut one is not the last, with the line where it begins.
  bool next_whole();
  /// Whether the last item was cut short.
  bool cut() const { return cut_; }
  /// The same without parsing it: its brackets close, no more is known.
  bool next_text();
  const std::string& text() const { return text_; }
  /// Lives until the next one.
  const JsonElement& item() const { return item_; }
  /// From 0.
  std::int64_t number() const { return number_; }
  const std::string& path() const { return blocks_.path(); }
  /// Where the item begins: "file:line".
  std::string where() const;
  int line() const { return first_line_; }
  double done() const { return blocks_.done(); }

 private:
  /// Where the scan is: outside of all values, in a list before an item or after one.
  enum class Place { outside, before_item, after_item };
  bool find_item();
  void skip_blanks();
  void join_blocks();
  bool passes_mark();
  void pass_line();
  void take_item();
  void parse();
  bool takes_next() const;
  bool ends_in_cut() const;
  bool take_string();
  void take_scalar();
  bool more();
  [[noreturn]] void refuse(const std::string& what) const;

  TextBlocks blocks_;
  std::string_view rest_;  // of the block, or of what is joined
  std::string joined_;     // the end of a block and the next one
  Place place_ = Place::outside;
  bool listed_ = false;  // a list was opened: a comma promises an item
  bool cut_ = false;     // the file ends inside the item
  std::string text_;     // of the item
  int line_ = 1, first_line_ = 1;
  std::int64_t number_ = -1;
  simdjson::dom::parser parser_;
  JsonElement item_;
};

/// The value of a key; none if it is missing or null, or `value` is not an object.
std::optional<JsonElement> json_at(const JsonElement& value, const char* key);

/// The keys of an object.
std::vector<std::string> json_keys(const JsonElement& value);

/// A whole number from 0 to `most`, -1 for anything else.
std::int64_t json_number(const std::optional<JsonElement>& value, std::int64_t most);

/// Nested lists of whole numbers. Throws Error unless they are a regular array of `axes` axes.
NpyArray array_of_lists(const JsonElement& lists, std::size_t axes, const std::string& where,
                        const char* of = "routes");

/// How many lists are inside each other, by their first items.
std::size_t axes_of(const JsonElement& lists);

}  // namespace moesim
