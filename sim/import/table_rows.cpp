// SPDX-License-Identifier: Apache-2.0
#include "sim/import/table_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/file_content.h"
#include "sim/import/json_rows.h"
#include "sim/import/log_lines.h"
#include "sim/import/printed_array.h"
#include "sim/import/prometheus_rows.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

struct TableHeader {
  int line = 0;  // 0: there is none, columns are numbered from 1
  char separator = ',';
  std::vector<std::string> names;
};

bool all_numbers(const std::vector<std::string>& cells) {
  return std::ranges::all_of(cells,
                             [](const std::string& cell) { return value_of_text(cell).numeric; });
}

/// Whether rows have the columns of a header, or a number more before them, which pandas prints and
/// does not name; names it then.
bool with_index(TableHeader& header, std::size_t cells) {
  if (cells == header.names.size() + 1) header.names.insert(header.names.begin(), "");
  return cells == header.names.size();
}

/// Whether what is no JSON is a print of Python's dicts.
bool holds_python(const std::string& path) {
  TextBlocks blocks(path);
  const std::string start(blocks.next().substr(0, 4096));
  return std::ranges::any_of(
      std::array{"{'", ": None", ": True", ": False"},
      [&](const char* mark) { return start.find(mark) != std::string::npos; });
}

/// Whether a cell is a name with its value, "expert=3" or "'expert': 3".
bool holds_value(std::string_view cell) {
  for (std::size_t at = cell.find_first_of("=:"); at != std::string_view::npos;
       at = cell.find_first_of("=:", at + 1)) {
    const std::size_t value = cell.find_first_not_of(' ', at + 1);
    if (value != std::string_view::npos &&
        std::string_view("\"'[0123456789").find(cell[value]) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

/// A line that names a field with choices, among the first; or numbers in columns, which only flags
/// can name.
std::optional<TableHeader> find_header(const std::string& path, const TableFields& fields) {
  constexpr int searched = 100;
  LineFile lines(path);
  std::string line;
  std::optional<TableHeader> names;  // of the line before, if blanks separate them
  const auto makes_row = [&](const std::string& name) {
    return fields.makes_row(name) && !holds_value(name);
  };
  while (lines.next(line) && lines.line_number() <= searched) {
    if (line.front() == '#') continue;
    if (names) {
      const auto row = cells_of(line, ' ');
      if (all_numbers(row) && with_index(*names, row.size())) return names;
      names.reset();
    }
    TableHeader header{lines.line_number(), separator_of(line), {}};
    if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    const bool blanks = header.separator == '\0';
    if (blanks) header.separator = ' ';
    header.names = cells_of(line, header.separator);
    if (!all_numbers(header.names)) {
      if (!std::ranges::any_of(header.names, makes_row)) continue;
      if (!blanks) return header;
      names = header;
      continue;
    }
    if (header.names.size() < 2) continue;
    for (std::size_t i = 0; i < header.names.size(); ++i) {
      header.names[i] = fmt::format("{}", i + 1);
    }
    header.line = 0;
    if (std::ranges::any_of(header.names, makes_row)) return header;
    if (header.separator != ' ') return std::nullopt;
  }
  return std::nullopt;
}

/// The line below the names of a Markdown table: "|---|--:|".
bool is_markdown_rule(std::string_view line) {
  return line.find("--") != std::string_view::npos &&
         line.find_first_not_of("|-:+ \t\r") == std::string_view::npos;
}

/// A number behind the named cells is of a second line that is glued to this one, as words of a
/// remark, or of a text with commas, are not.
void refuse_more_cells(const std::vector<std::string>& cells, const TableHeader& header,
                       const std::string& path, int line) {
  const std::size_t columns = header.names.size();
  if (header.separator == ' ') return;
  for (std::size_t i = columns; i < cells.size(); ++i) {
    if (cells[i].empty() || !value_of_text(cells[i]).numeric) continue;
    throw error_in(
        path, fmt::format("has {} cells below {} columns", cells.size(), columns),
        "two lines in one, a name that the header lacks, or commas in a cell without quotes", line);
  }
}

/// Of two columns with one name nobody can say which is meant.
void refuse_equal_columns(const std::vector<std::string>& names, const RolePlaces& places,
                          const std::string& path, int line) {
  for (const auto& of_role : places) {
    for (const std::size_t field : of_role) {
      if (std::ranges::count(names, names[field]) < 2) continue;
      throw error_in(path, fmt::format("has two columns '{}'", names[field]), "rename one", line);
    }
  }
}

/// "# model=x n_expert=128 n_expert_used=8"
void note_facts(std::string_view comment, TableFacts& facts) {
  for (const std::string& word : cells_of(comment.substr(1), ' ')) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) continue;
    const TableValue value = value_of_text(word.substr(equals + 1));
    if (!value.numeric || value.lists > 0 || !(std::abs(value.numbers[0]) < 1e6)) continue;
    note_fact(word.substr(0, equals), static_cast<std::int64_t>(value.numbers[0]), facts);
  }
}

void note_cut(const std::string& path, TableFacts& facts) {
  if (facts.cut_lines++ == 0) facts.cut_file = path;
}

}  // namespace

void TableReader::read(const std::string& path) {
  const FileForm form = form_of(path);
  if (form == FileForm::json) return read_json(path);
  if (form == FileForm::text) return read_text(path);
  throw error_in(path, content_of(path) + ", no JSON lines or CSV",
                 "moesim list importers says which kind reads what");
}

void TableReader::finish() {
  facts_.totals = counters_.use_held();
  facts_.repeats_files = counters_.repeats_files();
}

void TableReader::read_json(const std::string& path) {
  FieldPlaces places(fields_);
  JsonRows rows(places, use_, facts_);
  JsonItems items(path);
  try {
    while (items.next_whole()) {
      if (rows.rows() == 0 && holds_expert_samples(items.item(), fields_)) {
        if (read_metrics_json(path, fields_, counters_, use_)) note_cut(path, facts_);
        return;
      }
      rows.visit_item(items.item(), path, items.line());
      progress_(items.done());
    }
  } catch (const Error&) {
    if (holds_python(path)) {
      throw error_in(path, "holds Python's text, not JSON", "json.dumps writes JSON");
    }
    if (rows.rows() > 0 || !printed_lists_in(path)) throw;
    throw error_in(path, "is a printed array, not rows",
                   "kind 'counts' reads printed counts, 'npy' ids that np.save wrote");
  }
  if (items.cut()) note_cut(path, facts_);
  if (rows.rows() > 0) return;
  throw error_in(path, content_of(path) + "; none is known to hold expert ids",
                 "--map experts=FIELD,layer=FIELD,token=FIELD says which do; responses of servers "
                 "have kinds of their own");
}

void TableReader::read_text(const std::string& path) {
  const auto header = find_header(path, fields_);
  if (!header) {
    if (read_metrics_page(path, fields_, counters_, use_)) return;
    for (const bool counted : {false, true}) {  // counts only of a log without choices
      LogLines log(fields_, use_, facts_, counted);
      LineFile all(path);
      log.read(all, progress_);
      if (log.rows() > 0) return;
    }
    throw error_in(path, content_of(path) + "; none is known to hold expert ids",
                   "--map experts=COLUMN,layer=COLUMN,token=COLUMN says which do (columns of a "
                   "file without a header are 1, 2, ...)");
  }
  FieldPlaces places(fields_);
  const auto& found = places.find(header->names, path);
  refuse_equal_columns(header->names, found, path, header->line);
  const auto use_cells = [&](const std::vector<std::string>& cells, int line) {
    TableRow row{path, line};
    const auto value_of = [&](std::size_t field) { return value_of_text(cells[field]); };
    fill_row(row, found, fields_, header->names, value_of);
    note_unused(found, header->names, 0, value_of, facts_);
    use_(row);
  };
  LineFile lines(path);
  std::string line, heading, cut;
  int cut_line = 0, empty_line = 0;
  // A row without its last cell, which the row before has: cut short if it is the last row.
  std::optional<std::vector<std::string>> ends_empty;
  bool full = false;
  while (lines.next(line)) {
    if (line.front() == '#') note_facts(line, facts_);
    if (lines.line_number() <= header->line) heading = line;
    if (line.front() == '#' || line == heading) continue;  // joined files repeat the header
    if (is_markdown_rule(line)) continue;
    if (!cut.empty()) {  // only the last line may be: the recorder was killed
      throw error_in(path,
                     fmt::format("has cells for some of its {} columns only", header->names.size()),
                     "", cut_line);
    }
    auto cells = cells_of(line, header->separator);
    if (cells.size() < header->names.size()) {
      cut = line;
      cut_line = lines.line_number();
      continue;
    }
    refuse_more_cells(cells, *header, path, lines.line_number());
    if (ends_empty) use_cells(*ends_empty, empty_line);
    ends_empty.reset();
    empty_line = lines.line_number();
    if (full && cells.back().empty()) {
      ends_empty = std::move(cells);
      continue;
    }
    full = !cells.back().empty();
    use_cells(cells, empty_line);
    progress_(lines.done());
  }
  if (ends_empty || !cut.empty()) note_cut(path, facts_);
}

bool holds_json_rows(const std::string& path) {
  if (form_of(path) != FileForm::json) return false;
  const TableFields fields({});
  FieldPlaces places(fields);
  TableFacts facts;
  const TableReader::Use ignore = [](TableRow&) {};
  JsonRows rows(places, ignore, facts);
  JsonItems items(path);
  for (int i = 0; i < 4 && items.next(); ++i) {
    if (json_at(items.item(), "choices") || json_at(items.item(), "meta_info") ||
        json_at(items.item(), "routed_experts")) {
      return false;
    }
    rows.visit_item(items.item(), path, items.line());
  }
  return rows.rows() > 0;
}

}  // namespace moesim
