// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/wrapped_lines.h"

#include <algorithm>
#include <optional>

#include "sim/base/plain_line.h"
#include "sim/linkfit/logs/nccl_lines.h"
#include "sim/linkfit/logs/nccl_table.h"

namespace moesim {
namespace {

/// Lines that the names of columns take in the narrowest terminal.
constexpr std::size_t most_pieces = 8;

/// Columns of a terminal: bytes that do not continue a character.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Halves of a table in the names of its columns, if nothing lacks: "time algbw busbw #wrong".
std::size_t halves_in(const std::string& line) {
  std::vector<std::string> names = columns_in(line);
  while (!names.empty() && (names.back() == "timestamp" || names_algorithm(names.back()))) {
    names.pop_back();
  }
  const auto is_time = [](const std::string& name) { return name == "time" || name == "cputime"; };
  const auto first = std::ranges::find_if(names, is_time);
  const auto count = static_cast<std::size_t>(names.end() - first);
  if (count == 0 || count % 4 != 0) return 0;
  for (auto at = first; at != names.end(); at += 4) {
    const std::string& check = at[3];
    if (!is_time(at[0]) || at[1] != "algbw" || at[2] != "busbw") return 0;
    if (check != "#wrong" && check != "error" && check != "res") return 0;
  }
  return count / 4;
}

/// Whether a line is one that tests or NCCL begin, though the one before it fills the width.
bool is_beginning(const std::string& line) {
  const std::string plain = plain_line(line);
  const std::size_t first = plain.find_first_not_of(" \t");
  if (first == std::string::npos || plain[first] == '#') return true;
  const auto output = library_output(plain);
  return (output && output->at <= first) || rank_line(plain) || row_words(plain, true);
}

/// How a line follows the one before it.
enum class LineJoin { begins, continues, after_blank };

/// How many lines make the names of columns that begin in a line whole; 0 if they are so in it.
std::size_t pieces_of(const std::vector<std::string>& lines, std::size_t at, const char* between) {
  const std::size_t here = halves_in(lines[at]);
  std::string names = lines[at];
  for (std::size_t pieces = 2; pieces <= most_pieces && at + pieces <= lines.size(); ++pieces) {
    names += between + lines[at + pieces - 1];
    if (halves_in(names) > here) return pieces;
  }
  return 0;
}

/// Joins the lines of names of columns; false if there is none to join.
bool join_names(const std::vector<std::string>& lines, std::vector<LineJoin>& joins) {
  bool any = false;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (lines[at].find("size") == std::string::npos || columns_in(lines[at]).empty()) continue;
    // Who copies from a terminal may lose blanks at the ends of lines.
    std::size_t pieces = pieces_of(lines, at, "");
    const LineJoin join = pieces > 0 ? LineJoin::continues : LineJoin::after_blank;
    if (pieces == 0) pieces = pieces_of(lines, at, " ");
    for (std::size_t i = 1; i < pieces; ++i) joins[at + i] = join;
    any = any || pieces > 0;
  }
  return any;
}

}  // namespace

std::vector<LogLine> unwrapped(const std::vector<std::string>& lines) {
  std::vector<LineJoin> joins(lines.size(), LineJoin::begins);
  const bool wrapped = join_names(lines, joins);
  std::size_t width = 0;
  if (wrapped) {
    for (const std::string& line : lines) width = std::max(width, width_of(line));
  }
  std::vector<LogLine> whole;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool full =
        wrapped && i > 0 && width_of(lines[i - 1]) == width && !is_beginning(lines[i]);
    if (joins[i] == LineJoin::begins && !full) {
      whole.push_back({static_cast<int>(i) + 1, lines[i]});
    } else {
      whole.back().text += (joins[i] == LineJoin::after_blank ? " " : "") + lines[i];
    }
  }
  return whole;
}

}  // namespace moesim
