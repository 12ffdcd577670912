// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/store.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/base/lower_case.h"
#include "sim/base/read_number.h"
#include "sim/base/regular_file.h"
#include "sim/sweep/sound_rows.h"
#include "sim/sweep/statement.h"

namespace moesim {
namespace {

/// Names of columns that every row has.
const std::vector<std::string> first_columns = {"id", "state", "reason"};

constexpr const char* format_version = "1";

/// The count in `about`; -1: none.
std::int64_t count_of(const std::string& text) {
  return parse_integer<std::int64_t>(text).value_or(-1);
}

[[noreturn]] void refuse_file(const std::string& path) {
  throw error_in(path, "this is not a file of a sweep",
                 "moesim sweep GRID.yaml -o NEW-FILE makes one");
}

/// Whether nothing has been made in it yet; throws for what is no database.
bool is_empty(sqlite3* db, const std::string& path) {
  try {
    Statement tables(db, "SELECT count(*) FROM sqlite_master");
    tables.step();
    return tables.integer(0) == 0;
  } catch (const Error&) {
    refuse_file(path);
  }
}

SweepAbout read_about(sqlite3* db, const std::string& path) {
  std::map<std::string, std::string> values;
  SweepAbout about;
  try {
    // A view can compute for ever.
    Statement others(db, "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')");
    if (others.step() && others.integer(0) > 0) throw Error("views or triggers");
    Statement meta(db, "SELECT key, value FROM about");
    while (meta.step()) values[meta.text(0)] = meta.text(1);
    Statement axes(db, "SELECT name FROM axes ORDER BY place");
    while (axes.step()) about.axes.push_back(axes.text(0));
  } catch (const Error&) {
    refuse_file(path);
  }
  if (values["format_version"] != format_version) {
    throw error_in(path, "this file of a sweep has a format of another version of moesim");
  }
  about.grid = values["grid"];
  about.file = values["file"];
  about.scenarios = count_of(values["scenarios"]);
  if (about.scenarios < 0) throw error_in(path, "this file of a sweep does not tell its scenarios");
  return about;
}

/// Refuses what a copy has lost the end of. A file in WAL mode may grow now.
void check_whole(const std::string& path) {
  if (!is_there(path + "-wal")) check_database_size(path);
}

}  // namespace

SweepStore::SweepStore(const std::string& path, const SweepAbout& about)
    : path_(path), lock_(path) {
  const bool was_there = is_there(path);
  try {
    if (was_there) check_whole(path);
    db_ = open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    // Nothing changes in a file of others, not even its journal's mode.
    const bool fresh = is_empty(db_, path);
    if (!fresh) {
      check(about);
      check_states(db_, path);
    }
    execute(db_, "PRAGMA journal_mode=WAL");
    execute(db_, "PRAGMA synchronous=NORMAL");
    if (fresh) make(about);
    Statement info(db_, "SELECT name FROM pragma_table_info('scenarios')");
    while (info.step()) columns_.emplace(lower_case(info.text(0)), info.text(0));
  } catch (...) {
    sqlite3_close(db_);
    if (!was_there) {  // a disk that is full has room for a name
      ::unlink(path.c_str());
      for (const char* ending : beside_sweep_file) ::unlink((path + ending).c_str());
    }
    throw;
  }
}

SweepStore::~SweepStore() {
  inserts_.clear();
  remove_failed_.reset();
  // One plain file, unless somebody reads it now.
  sqlite3_exec(db_, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr);
  sqlite3_close(db_);
}

void SweepStore::make(const SweepAbout& about) {
  execute(db_, "BEGIN");
  execute(db_, "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)");
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"format_version", format_version},
                                          {"grid", about.grid},
                                          {"file", about.file},
                                          {"scenarios", std::to_string(about.scenarios)}}) {
    execute(db_, fmt::format("INSERT INTO about VALUES ({}, {})", sql_text(key), sql_text(value)));
  }
  execute(db_, "CREATE TABLE axes (place INTEGER PRIMARY KEY, name TEXT)");
  std::string columns = "id INTEGER PRIMARY KEY";
  for (const std::string& axis : about.axes) {
    execute(db_, fmt::format("INSERT INTO axes (name) VALUES ({})", sql_text(axis)));
    columns += ", " + sql_name(axis);
  }
  execute(db_, fmt::format("CREATE TABLE scenarios ({}, state TEXT, reason TEXT)", columns));
  execute(db_, "COMMIT");
}

void SweepStore::check(const SweepAbout& about) const {
  if (read_about(db_, path_).grid == about.grid) return;
  throw error_in(path_,
                 fmt::format("this file holds the sweep of another grid than {}", about.file),
                 "the grid has changed since, or -o names the wrong file: take another one");
}

void SweepStore::add(const std::vector<SweepRow>& rows) { write(rows, false); }

void SweepStore::replace(const std::vector<SweepRow>& rows) { write(rows, true); }

void SweepStore::write(const std::vector<SweepRow>& rows, bool replace) {
  if (rows.empty()) return;
  try {
    execute(db_, "BEGIN");
    for (const SweepRow& row : rows) {
      if (replace) execute(db_, fmt::format("DELETE FROM scenarios WHERE id = {}", row.id));
      add_row(row);
    }
    execute(db_, "COMMIT");
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& e) {  // such as a disk that is full
    throw std::runtime_error(
        fmt::format("{}; what is in it stays, and the same command continues", e.what()));
  }
}

void SweepStore::add_column(const std::string& name) {
  const auto [known, is_new] = columns_.emplace(lower_case(name), name);
  if (is_new) return execute(db_, "ALTER TABLE scenarios ADD COLUMN " + sql_name(name));
  if (known->second == name) return;
  throw error_in(path_,
                 fmt::format("the columns '{}' and '{}' have one name: SQLite ignores case",
                             known->second, name),
                 "give the axis another name, and the sweep another file");
}

/// The statement for rows with the columns of this one.
Statement& SweepStore::insert_of(const SweepRow& row) {
  const auto fits = [&](const Insert& known) {
    return std::ranges::equal(known.columns, row.figures, {}, {}, &SweepFigure::column);
  };
  const auto known = std::ranges::find_if(inserts_, fits);
  if (known != inserts_.end()) return *known->statement;
  std::string names = "id, state, reason", places = "?, ?, ?";
  Insert fresh;
  for (const SweepFigure& figure : row.figures) {
    add_column(figure.column);
    names += ", " + sql_name(figure.column);
    places += ", ?";
    fresh.columns.push_back(figure.column);
  }
  fresh.statement = std::make_unique<Statement>(
      db_, fmt::format("INSERT OR IGNORE INTO scenarios ({}) VALUES ({})", names, places));
  return *inserts_.emplace_back(std::move(fresh)).statement;
}

void SweepStore::add_row(const SweepRow& row) {
  Statement& insert = insert_of(row);
  if (!remove_failed_) {
    remove_failed_ =
        std::make_unique<Statement>(db_, "DELETE FROM scenarios WHERE id = ? AND state = 'failed'");
  }
  remove_failed_->reset();
  remove_failed_->bind(1, integer_value(row.id));
  remove_failed_->step();
  remove_failed_->reset();
  insert.reset();
  insert.bind(1, integer_value(row.id));
  insert.bind(2, text_value(row.state));
  if (!row.reason.empty()) insert.bind(3, text_value(row.reason));
  int place = static_cast<int>(first_columns.size());
  for (const SweepFigure& figure : row.figures) insert.bind(++place, figure.value);
  insert.step();
  insert.reset();
}

std::set<std::int64_t> SweepStore::ids() const {
  std::set<std::int64_t> ids;
  Statement select(db_, std::string("SELECT id") + final_rows);
  while (select.step()) ids.insert(select.integer(0));
  return ids;
}

SweepReader::SweepReader(const std::string& path) : path_(path) {
  if (!is_there(path)) throw error_in(path, "there is no such file");
  note_input(path);
  check_whole(path);
  db_ = open_database(path, SQLITE_OPEN_READONLY);
  try {
    for (const char* ending : beside_sweep_file) {
      if (is_there(path + ending)) note_input(path + ending);
    }
    read_about(db_, path);
    check_states(db_, path);
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

SweepReader::~SweepReader() { sqlite3_close(db_); }

SweepAbout SweepReader::about() const { return read_about(db_, path_); }

void SweepReader::require_figures() const {
  Statement states(db_, "SELECT state, count(*) FROM scenarios GROUP BY state ORDER BY state");
  std::string others;
  while (states.step()) {
    const std::string state = states.text(0);
    if (state == sweep_ok) return;
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", states.integer(1), state);
  }
  const std::int64_t all = about().scenarios;
  if (!others.empty()) {
    throw error_in(path_, fmt::format("has no results: {} of {} scenarios", others, all),
                   "moesim query FILE --not-run says why");
  }
  throw error_in(
      path_, fmt::format("has no results yet: none of its {} has ended", counted(all, "scenario")),
      "the same 'moesim sweep' continues");
}

std::vector<std::string> SweepReader::columns() const {
  std::vector<std::string> columns;
  Statement info(db_, "SELECT name FROM pragma_table_info('scenarios') ORDER BY cid");
  while (info.step()) columns.push_back(info.text(0));
  return columns;
}

StoredRows SweepReader::query(const std::string& sql) const {
  Statement select(db_, sql);
  StoredRows result;
  for (int c = 0; c < select.columns(); ++c) result.columns.push_back(select.name(c));
  while (select.step()) {
    auto& row = result.rows.emplace_back();
    for (int c = 0; c < select.columns(); ++c) row.push_back(select.value(c));
  }
  return result;
}

void SweepReader::rows(const std::function<void(SweepRow)>& take) const {
  Statement select(db_, "SELECT * FROM scenarios ORDER BY id");
  while (select.step()) {
    SweepRow row;
    for (int c = 0; c < select.columns(); ++c) {
      const std::string name = select.name(c);
      const auto value = select.value(c);
      if (!value) continue;
      if (name == "id") {
        row.id = value->integer;
      } else if (name == "state") {
        row.state = value->text;
      } else if (name == "reason") {
        row.reason = value->text;
      } else {
        row.figures.push_back({name, *value});
      }
    }
    take(std::move(row));
  }
}

}  // namespace moesim
