// SPDX-License-Identifier: Apache-2.0
// Reads one line of a plan's text word by word; a mistake knows its column.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// What is wrong with a line, thrown while it is read; column counts from 1.
struct LineMistake {
  int column = 0;
  std::string message;
  std::string hint;
};

/// Ranges and repeats let a few bytes stand for many numbers. All lists of a file together may
/// stand for `left` more: enough for any plan of its length, too few to fill the memory.
struct ListRoom {
  std::int64_t granted;  // to any file
  std::int64_t left;
  ListRoom(std::int64_t to_any, std::size_t file_bytes)
      : granted(to_any), left(to_any + 64 * static_cast<std::int64_t>(file_bytes)) {}
};

/// The words of one line; every getter throws LineMistake if the text does not fit.
class LineReader {
 public:
  /// `room` must outlive it.
  LineReader(std::string_view line, ListRoom& room) : line_(line), room_(&room) {}

  std::string_view line() const { return line_; }
  bool at_end();  // nothing but blanks or a comment follows
  bool indented() const { return !line_.empty() && (line_[0] == ' ' || line_[0] == '\t'); }
  /// Takes the next word when it is `word`.
  bool accept(std::string_view word);
  void expect(std::string_view word);
  void expect_end();
  /// The next word; `what` names it in messages.
  std::string_view word(std::string_view what);
  /// A plain word or a quoted string with escapes.
  std::string name(std::string_view what);
  /// Index into `names`.
  int choice(std::string_view what, const std::vector<std::string>& names);
  /// A whole number of min..max.
  std::int64_t integer(std::string_view what, std::int64_t min, std::int64_t max);
  /// Numbers with repeats, comma-joined into one word: `4,3*8`; `-` for none.
  std::vector<std::int64_t> sizes(std::string_view what) { return sizes_in(word(what), what); }
  /// Several such lists, joined by semicolons into one word.
  std::vector<std::vector<std::int64_t>> size_lists(std::string_view what);
  /// Numbers 0..max and ranges of them, comma-joined into one word: `0-31,40`; `-` for none.
  std::vector<std::int64_t> ids(std::string_view what, std::int64_t max) {
    return ids_in(word(what), what, max);
  }

  // The same for a part of a word.
  /// The colon-joined parts of the next word, as many as in `form`, such as "GPU:units".
  std::vector<std::string_view> parts(std::string_view form);
  std::int64_t integer_in(std::string_view part, std::string_view what, std::int64_t min,
                          std::int64_t max) const;
  std::vector<std::int64_t> sizes_in(std::string_view list, std::string_view what) const;
  std::vector<std::int64_t> ids_in(std::string_view part, std::string_view what,
                                   std::int64_t max) const;

  /// Takes room for so many numbers that `part` stands for.
  void take_room(std::string_view part, std::int64_t numbers) const;

  /// A mistake at the start of `part`, which must be within the line.
  [[noreturn]] void fail(std::string_view part, std::string message, std::string hint = "") const;

 private:
  void skip_blanks();

  std::string_view line_;
  ListRoom* room_;
  std::size_t at_ = 0;
};

}  // namespace moesim
