// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/nccl_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/figures.h"

namespace moesim {
namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }

/// Where the words of a line end, from an offset on.
std::vector<std::size_t> ends_of_words(const std::string& line, std::size_t from) {
  std::vector<std::size_t> ends;
  for (std::size_t at = from; at < line.size(); ++at) {
    const bool last = at + 1 == line.size() || blank(line[at + 1]);
    if (!blank(line[at]) && last) ends.push_back(at + 1);
  }
  return ends;
}

}  // namespace

void NcclRows::begin(const RowWords& row, const std::string& line, int number) {
  pending_ = {row.size};
  first_ = {number, line, row};
  open_end_ = !blank(line.back());
  pending_.insert(pending_.end(), row.rest.begin(), row.rest.end());
}

bool NcclRows::continues(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  if (std::any_of(words.begin() + (open_end_ ? 1 : 0), words.end(), is_of_dump)) return false;
  const auto other = std::find_if_not(words.rbegin(), words.rend(), is_value);
  const auto values = static_cast<std::size_t>(other - words.rbegin());
  const std::size_t missing = table_.words() + 1 - pending_.size();
  if (values == 0 || (values < missing && values < words.size())) return false;
  const bool split =
      open_end_ && values == missing + 1 && values == words.size() && !blank(line[0]);
  if (split) {  // the line before ended in the middle of a number
    pending_.back() += words.front();
  }
  open_end_ = !blank(line.back());
  pending_.insert(pending_.end(),
                  words.end() - static_cast<std::ptrdiff_t>(std::min(values, missing)),
                  words.end());
  return true;
}

std::vector<std::string> NcclRows::whole() {
  // What follows the last value of a broken row is not of it.
  const auto other = std::find_if_not(pending_.begin() + 1, pending_.end(), begins_as_value);
  if (other - pending_.begin() <= static_cast<std::ptrdiff_t>(table_.words())) {
    pending_.erase(other, pending_.end());
  }
  if (pending_.size() < table_.words() + 1) return {};
  return std::exchange(pending_, {});
}

void NcclRows::drop() {
  if (!open()) return;
  pending_.clear();
  dropped_.push_back(first_);
}

void NcclRows::note_other(const std::string& line, int number) {
  if (other_line_ != 0 || table_.words() == 0) return;
  const std::vector<std::string> words = words_of(line);
  const auto values = std::ranges::count_if(words, is_value);
  if (static_cast<std::size_t>(values) >= table_.words()) other_line_ = number;
}

std::string NcclRows::fault_of(const FirstLine& row) const {
  const auto other = std::ranges::find_if_not(row.words.rest, is_value);
  if (other != row.words.rest.end()) return fmt::format("'{}' is between its values", *other);
  return fmt::format("it has {} of {}", row.words.rest.size(), counted(table_.words(), "value"));
}

std::vector<std::string> NcclRows::with_one_half(const FirstLine& row) const {
  constexpr std::size_t half = 4;  // time, algbw, busbw, #wrong
  const std::vector<std::string>& values = row.words.rest;
  const std::size_t size = names_.find("size");
  if (table_.words() != 2 * half || values.size() != half || size == std::string::npos) return {};
  const std::vector<std::size_t> names = ends_of_words(names_, size);
  const std::vector<std::size_t> ends = ends_of_words(row.text, row.words.size_end - 1);
  if (names.size() < 2 * half || ends.size() <= half) return {};
  // Rows are aligned to the right below the names. Signs of wrong results may reach further.
  const auto is_below = [&](std::size_t first_name) {
    for (std::size_t i = 0; i + 1 < half; ++i) {
      const std::size_t name = names[first_name + i] - names.front();
      if (ends[ends.size() - half + i] - row.words.size_end != name) return false;
    }
    return true;
  };
  const bool in_place = is_below(names.size() - half);
  if (!in_place && !is_below(names.size() - 2 * half)) return {};
  std::vector<std::string> words = {row.words.size};
  words.resize(1 + 2 * half, "N/A");
  std::ranges::copy(values, words.begin() + (in_place ? 1 + half : 1));
  return words;
}

void NcclRows::finish(const std::string& file, NcclTest& test) {
  std::vector<FirstLine> rows = std::exchange(dropped_, {});
  if (open()) {
    const bool is_last = test.rows.empty() && !rows.empty() && !with_one_half(first_).empty();
    if (is_last) rows.push_back(first_);
    if (!is_last) test.cut_line = first_.number;
    pending_.clear();
  }
  const auto refuse = [&](int line, const std::string& why) {
    throw error_in(file, "this row cannot be read: " + why,
                   "give the output as the test printed it, each row in a line", line);
  };
  if (rows.empty() && test.rows.empty() && test.ended && other_line_ != 0) {
    refuse(other_line_, "no type of data, such as float, is between its numbers");
  }
  if (rows.empty()) return;
  const auto is_half = [&](const FirstLine& row) { return !with_one_half(row).empty(); };
  if (test.rows.empty() && std::ranges::all_of(rows, is_half)) {
    for (const FirstLine& row : rows) table_.add(with_one_half(row), file, row.number, test);
    return;
  }
  if (test.rows.empty()) refuse(rows.front().number, fault_of(rows.front()));
  test.notes.push_back(fmt::format("leaves out {} that other output broke, first in line {}",
                                   counted(rows.size(), "row"), rows.front().number));
}

}  // namespace moesim
