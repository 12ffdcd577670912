// SPDX-License-Identifier: Apache-2.0
#include "sim/import/json_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/import/file_content.h"

namespace moesim {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// What the scan of lists and objects stops at.
constexpr std::array<bool, 256> json_marks = [] {
  std::array<bool, 256> marks{};
  for (const char c : std::string_view("\"{[}]\n")) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

}  // namespace

std::string JsonItems::where() const { return fmt::format("{}:{}", path(), first_line_); }

void JsonItems::refuse(const std::string& what) const {
  throw error_in(path(), "not JSON: " + what, "", line_);
}

bool JsonItems::more() {
  if (!rest_.empty()) return true;
  rest_ = blocks_.next();
  return !rest_.empty();
}

/// No writer leaves millions of blanks; a small compressed file holds gigabytes of them.
void JsonItems::skip_blanks() {
  constexpr std::ptrdiff_t most = 16 << 20;
  std::ptrdiff_t skipped = 0;
  while (more()) {
    const auto item = std::ranges::find_if_not(rest_, is_blank);
    skipped += item - rest_.begin();
    if (skipped > most) refuse("over 16 MiB of blanks in a row");
    line_ += static_cast<int>(std::count(rest_.begin(), item, '\n'));
    rest_ = {item, rest_.end()};
    if (!rest_.empty()) return;
  }
}

/// Up to the end of the line.
void JsonItems::pass_line() {
  while (more() && rest_.find('\n') == std::string_view::npos) rest_ = {};
  rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
}

/// The end of a block may cut a mark, of which "event:" is one of the longest.
void JsonItems::join_blocks() {
  if (rest_.size() >= std::string_view("event:").size()) return;
  joined_ = std::string(rest_).append(blocks_.next());
  rest_ = joined_;
}

/// Passes what is outside of values: the mark of UTF-8, and around the events of a streamed
/// response "data: {...}", "data: [DONE]" and lines such as "event: message", and HTTP headers.
bool JsonItems::passes_mark() {
  join_blocks();
  if (is_event_field(rest_)) {
    pass_line();
    return true;
  }
  if (rest_.starts_with("HTTP/")) {
    do {
      pass_line();
      if (!rest_.empty()) rest_.remove_prefix(1);  // the end of the line
      ++line_;
      while (more() && rest_.front() == '\r') rest_.remove_prefix(1);
    } while (more() && rest_.front() != '\n');
    return true;
  }
  for (const std::string_view mark : {"\xef\xbb\xbf", "data:", "[DONE]"}) {
    if (!rest_.starts_with(mark)) continue;
    rest_.remove_prefix(mark.size());
    return true;
  }
  return false;
}

/// Opens lists and passes commas until an item begins; false at the end of the file.
bool JsonItems::find_item() {
  for (;;) {
    skip_blanks();
    if (!more()) {
      if (place_ != Place::outside) refuse("unexpected end of input");
      return false;
    }
    if (place_ == Place::outside && passes_mark()) continue;
    const char c = rest_.front();
    if (place_ == Place::before_item && (c != ']' || listed_)) return true;
    if (place_ == Place::outside && c != '[') return true;
    rest_.remove_prefix(1);
    if (place_ == Place::outside) {
      place_ = Place::before_item;
      listed_ = false;
    } else if (c == ']') {
      place_ = Place::outside;
    } else if (c == ',') {
      place_ = Place::before_item;
      listed_ = true;
    } else {
      refuse("expected ',' or ']' after an item of the list");
    }
  }
}

/// The rest of a string; false if the file ends inside.
bool JsonItems::take_string() {
  bool escaped = false;  // the block before ended in a backslash
  while (more()) {
    std::size_t from = escaped ? 1 : 0;
    for (;;) {
      const std::size_t end = std::min(rest_.find('"', from), rest_.size());
      std::size_t slashes = 0;
      while (end - slashes > from && rest_[end - slashes - 1] == '\\') ++slashes;
      escaped = slashes % 2 == 1;
      if (end == rest_.size()) break;
      if (!escaped) {
        text_.append(rest_.substr(0, end + 1));
        rest_.remove_prefix(end + 1);
        return true;
      }
      from = end + 1;
    }
    text_.append(rest_);
    blocks_.check_packing(text_.size());
    rest_ = {};
  }
  return false;
}

void JsonItems::take_scalar() {
  const auto ends = [](char c) { return is_blank(c) || c == ',' || c == ']'; };
  while (more()) {
    const auto* const end = std::ranges::find_if(rest_, ends);
    const bool ended = end != rest_.end();
    text_.append(rest_.begin(), end);
    rest_ = {end, rest_.end()};
    if (ended) return;
    blocks_.check_packing(text_.size());
  }
}

/// An item's text, up to the bracket that closes it.
void JsonItems::take_item() {
  text_.clear();
  first_line_ = line_;
  if (const char c = rest_.front(); c != '{' && c != '[') return take_scalar();
  int depth = 0;
  while (more()) {
    const auto* const mark = std::ranges::find_if(
        rest_, [](char c) { return json_marks[static_cast<unsigned char>(c)]; });
    const bool found = mark != rest_.end();
    const char c = found ? *mark : ' ';
    const auto size = static_cast<std::size_t>(mark - rest_.begin()) + (found ? 1 : 0);
    text_.append(rest_.substr(0, size));
    rest_.remove_prefix(size);
    blocks_.check_packing(text_.size());
    if (c == '\n') ++line_;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return;
    if (c == '"' && !take_string()) break;
  }
  cut_ = true;  // the parser says what it expects
}

/// Whether a later line of a cut item begins the next value.
bool JsonItems::takes_next() const {
  const std::string_view text(text_);
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    if (text.substr(at + 1).starts_with(text.front())) return true;
  }
  return false;
}

/// Whether only the last value is cut: no line behind its first begins another one, though a
/// launcher may have written there.
bool JsonItems::ends_in_cut() const {
  constexpr auto blanks = " \t\r\n";
  const std::string_view text(text_);
  const bool one_line = text.find_first_not_of(blanks, text.find('\n')) == text.npos;
  if (!one_line) return !takes_next();
  // A second writer in the line begins with the first key again, and ends.
  const std::string_view key = text.substr(0, text.find(':'));
  const bool ends = text.ends_with("}\n") || text.ends_with("}\r\n");
  return !ends || key.size() < 2 || text.find(key, key.size()) == text.npos;
}

bool JsonItems::next_text() {
  if (!find_item()) return false;
  take_item();
  if (place_ == Place::before_item) place_ = Place::after_item;
  ++number_;
  return true;
}

bool JsonItems::next() {
  if (!next_text()) return false;
  parse();
  return true;
}

bool JsonItems::next_whole() {
  if (!next_text() || (cut_ && number_ > 0 && place_ == Place::outside && ends_in_cut())) {
    return false;
  }
  parse();
  return true;
}

void JsonItems::parse() {
  if (cut_ && place_ == Place::outside && (number_ > 0 ? !ends_in_cut() : takes_next())) {
    throw error_in(path(), "not JSON: the value that begins here does not end",
                   "the line is cut short, or two writers wrote into it: leave it out",
                   first_line_);
  }
  text_.reserve(text_.size() + simdjson::SIMDJSON_PADDING);
  const auto status = parser_.parse(text_.data(), text_.size(), false).get(item_);
  if (status == simdjson::SUCCESS) return;
  parse_json(text_, {path(), first_line_});  // tells the place
  refuse(simdjson::error_message(status));
}

std::optional<JsonElement> json_at(const JsonElement& value, const char* key) {
  JsonElement found;
  if (!value.is_object() || value.at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) {
    return std::nullopt;
  }
  return found;
}

std::vector<std::string> json_keys(const JsonElement& value) {
  std::vector<std::string> keys;
  simdjson::dom::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    for (const auto& [key, its] : object) keys.emplace_back(key);
  }
  return keys;
}

std::int64_t json_number(const std::optional<JsonElement>& value, std::int64_t most) {
  std::int64_t number = 0;
  const bool sound =
      value && value->get(number) == simdjson::SUCCESS && number >= 0 && number <= most;
  return sound ? number : -1;
}

}  // namespace moesim
