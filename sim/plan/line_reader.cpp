// SPDX-License-Identifier: Apache-2.0
// Words, numbers, names and lists of one line.
#include "sim/plan/line_reader.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr std::int64_t most_repeats = 1 << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The part of `text` before `separator`, which is then dropped; all of it when there is none.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? text.substr(text.size()) : text.substr(end + 1);
  return part;
}

/// The parts of a word between separators; at least one, each within the word.
std::vector<std::string_view> split(std::string_view word, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const bool more = word.find(separator) != std::string_view::npos;
    parts.push_back(take_until(word, separator));
    if (!more) return parts;
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void LineReader::fail(std::string_view part, std::string message, std::string hint) const {
  throw LineMistake{static_cast<int>(part.data() - line_.data()) + 1, std::move(message),
                    std::move(hint)};
}

void LineReader::take_room(std::string_view part, std::int64_t numbers) const {
  if (numbers > room_->left) {
    fail(part, "the lists up to here stand for too many numbers",
         fmt::format("a file may hold {} of them and 64 for each of its bytes", room_->granted));
  }
  room_->left -= numbers;
}

void LineReader::skip_blanks() {
  while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
}

bool LineReader::at_end() {
  skip_blanks();
  return at_ == line_.size() || line_[at_] == '#';
}

std::string_view LineReader::word(std::string_view what) {
  if (at_end()) fail(line_.substr(at_), fmt::format("expected {} here", what));
  const std::size_t begin = at_;
  while (at_ < line_.size() && !is_blank(line_[at_])) ++at_;
  return line_.substr(begin, at_ - begin);
}

bool LineReader::accept(std::string_view word) {
  if (at_end()) return false;
  const std::size_t begin = at_;
  if (this->word("") == word) return true;
  at_ = begin;
  return false;
}

void LineReader::expect(std::string_view word) {
  const std::string_view found = this->word(fmt::format("'{}'", word));
  if (found != word) fail(found, fmt::format("expected '{}', not '{}'", word, found));
}

void LineReader::expect_end() {
  if (at_end()) return;
  const std::string_view extra = word("");
  fail(extra, fmt::format("'{}' does not belong here", extra));
}

std::string LineReader::name(std::string_view what) {
  if (at_end() || line_[at_] != '"') return std::string(word(what));
  const std::string_view quote = line_.substr(at_++);
  std::string text;
  while (at_ < line_.size() && line_[at_] != '"') {
    if (line_[at_] != '\\') {
      text += line_[at_++];
      continue;
    }
    const std::string_view escape = line_.substr(at_, 4);
    if (escape.size() >= 2 && (escape[1] == '"' || escape[1] == '\\')) {
      text += escape[1];
      at_ += 2;
    } else if (escape.size() == 4 && escape[1] == 'x' && hex_digit(escape[2]) >= 0 &&
               hex_digit(escape[3]) >= 0) {
      text += static_cast<char>(hex_digit(escape[2]) * 16 + hex_digit(escape[3]));
      at_ += 4;
    } else {
      fail(escape, "unknown escape in a name", R"(known: \", \\ and \x with two hex digits)");
    }
  }
  if (at_ == line_.size()) fail(quote, fmt::format("{} has no closing quote", what));
  ++at_;
  return text;
}

int LineReader::choice(std::string_view what, const std::vector<std::string>& names) {
  const std::string_view found = word(what);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (found == names[i]) return static_cast<int>(i);
  }
  fail(found, fmt::format("'{}' is not {}", found, what), did_you_mean(found, names));
}

std::int64_t LineReader::integer_in(std::string_view part, std::string_view what, std::int64_t min,
                                    std::int64_t max) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (part.empty() || end != part.data() + part.size() || error == std::errc::invalid_argument) {
    fail(part, fmt::format("expected {} here, a whole number, not '{}'", what, part));
  }
  if (error == std::errc::result_out_of_range || value < min || value > max) {
    fail(part, fmt::format("{} must be {} to {}, not {}", what, min, max, part));
  }
  return value;
}

std::int64_t LineReader::integer(std::string_view what, std::int64_t min, std::int64_t max) {
  return integer_in(word(what), what, min, max);
}

std::vector<std::string_view> LineReader::parts(std::string_view form) {
  const std::string_view found = word(form);
  std::vector<std::string_view> parts = split(found, ':');
  if (parts.size() != split(form, ':').size()) {
    fail(found, fmt::format("expected {}, not '{}'", form, found));
  }
  return parts;
}

std::vector<std::int64_t> LineReader::ids_in(std::string_view list, std::string_view what,
                                             std::int64_t max) const {
  std::vector<std::int64_t> values;
  if (list == "-") return values;
  for (std::string_view part : split(list, ',')) {
    const std::string_view whole = part;
    const bool range = part.find('-') != std::string_view::npos;
    const std::int64_t first = integer_in(take_until(part, '-'), what, 0, max);
    const std::int64_t last = range ? integer_in(part, what, 0, max) : first;
    if (last < first) fail(whole, fmt::format("the range {} runs backwards", whole));
    take_room(whole, last - first + 1);
    for (std::int64_t value = first; value <= last; ++value) values.push_back(value);
  }
  return values;
}

std::vector<std::vector<std::int64_t>> LineReader::size_lists(std::string_view what) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const std::string_view list : split(word(what), ';')) lists.push_back(sizes_in(list, what));
  return lists;
}

std::vector<std::int64_t> LineReader::sizes_in(std::string_view list, std::string_view what) const {
  std::vector<std::int64_t> values;
  if (list == "-") return values;
  for (std::string_view part : split(list, ',')) {
    std::int64_t count = 1;
    if (part.find('*') != std::string_view::npos) {
      count = integer_in(take_until(part, '*'), "a repeat", 1, most_repeats);
    }
    const std::int64_t value = integer_in(part, what, 0, std::numeric_limits<std::int64_t>::max());
    take_room(part, count);
    values.insert(values.end(), static_cast<std::size_t>(count), value);
  }
  return values;
}

}  // namespace moesim
