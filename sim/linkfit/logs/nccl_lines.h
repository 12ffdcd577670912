// SPDX-License-Identifier: Apache-2.0
// What single lines of a log of nccl-tests say, whatever launchers put before them and NCCL prints
// into them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

std::vector<std::string> words_of(std::string_view line);

/// Output of NCCL itself: "host:pid:tid [0] NCCL INFO ...".
struct LibraryOutput {
  std::size_t at;     // where it begins: before it may be a part of a row
  std::string host;   // empty when it does not say
  std::string text;   // from "NCCL" on
  bool info = false;  // not a warning
};
std::optional<LibraryOutput> library_output(const std::string& line);

/// "#  Rank  0 Group  0 Pid   4000 on   n1 device  0 [0000:10:00] NVIDIA H100", of any version.
struct RankLine {
  int rank, group;
  std::string host, gpu;
  std::string address = {};  // of the GPU on the PCI bus; empty: not said
  int device = -1;           // of the process; -1: not said
};
std::optional<RankLine> rank_line(const std::string& line);

/// The names of the columns, from "size" on; empty for other lines.
std::vector<std::string> columns_in(const std::string& line);

/// The words of a row. The type is what tells a row from other output, because prefixes of
/// launchers have any form.
struct RowWords {
  std::string size;
  std::size_t size_end;           // in the line
  bool whole_count;               // count x width of the type is the size
  std::string redop, root;        // empty if there is none
  std::vector<std::string> rest;  // times and what follows
};
std::optional<RowWords> row_words(const std::string& line, bool has_root);

/// Without what lists, tables and pages put behind a line: quotes, bars, tags ("...0  N/A\",").
std::string without_frame(const std::string& line);

/// Whether a word, or its beginning, is a number as rows have it. "nan", "inf" and "N/A" are.
bool is_value(const std::string& word);
bool begins_as_value(const std::string& word);
/// Whether it is of a dump of memory, such as "00000000", which no row has.
bool is_of_dump(const std::string& word);

/// What a launcher put before a line that begins with '#': "n1:"; empty if nothing is there.
std::string tag_before(std::string_view line);

/// Where other output of the test follows a row in its line, because a newline was lost: another
/// row or a comment. npos if nothing does.
std::size_t end_of_row(const std::string& line);

/// The name of a test in a command line or in another mention: "alltoall_perf_mpi"; empty
/// otherwise.
std::string program_in(const std::string& line);

/// What the key is followed by, up to a space; "" when it is not there.
std::string word_after(std::string_view line, std::string_view key);

/// Whether the line says that a run failed or was ended.
bool tells_of_an_end(std::string_view line);

}  // namespace moesim
