// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "sim/base/text.h"

namespace moesim {
namespace {

constexpr int patience = 10'000;  // milliseconds, for what another process writes

std::string file_of(sqlite3* db) {
  const char* name = sqlite3_db_filename(db, "main");
  return name != nullptr ? name : "";
}

std::string quoted_with(char quote, const std::string& text) {
  std::string result(1, quote);
  for (const char c : text) {
    if (c == quote) result += quote;
    result += c;
  }
  return result + quote;
}

}  // namespace

std::string sql_name(const std::string& name) { return quoted_with('"', name); }
std::string sql_text(const std::string& text) { return quoted_with('\'', text); }

sqlite3* open_database(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, flags, nullptr) != SQLITE_OK) {
    const std::string why = db != nullptr ? sqlite3_errmsg(db) : "no memory";
    sqlite3_close(db);
    throw error_in(path, "cannot be opened: " + why);
  }
  sqlite3_busy_timeout(db, patience);
  // Files come from others: what is in them computes nothing, and cells are checked before use.
  for (const char* guard : {"PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"}) {
    sqlite3_exec(db, guard, nullptr, nullptr, nullptr);
  }
  return db;
}

void execute(sqlite3* db, const std::string& sql) {
  Statement statement(db, sql);
  while (statement.step()) continue;
}

Statement::Statement(sqlite3* db, const std::string& sql) : db_(db) {
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, &rest) != SQLITE_OK) {
    throw error_in(file_of(db), fmt::format("SQLite cannot run this: {}", sqlite3_errmsg(db)),
                   "in: " + sql);
  }
  if (rest == nullptr || *rest == '\0') return;
  sqlite3_finalize(statement_);
  throw error_in(file_of(db), "SQLite runs one statement at a time", "in: " + sql);
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::bind(int place, const SweepValue& value) {
  switch (value.kind) {
    case SweepValue::Kind::integer:
      sqlite3_bind_int64(statement_, place, value.integer);
      break;
    case SweepValue::Kind::real:
      sqlite3_bind_double(statement_, place, value.real);
      break;
    case SweepValue::Kind::text:
      sqlite3_bind_text(statement_, place, value.text.data(), static_cast<int>(value.text.size()),
                        SQLITE_TRANSIENT);
      break;
  }
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  if (result == SQLITE_CORRUPT || result == SQLITE_NOTADB) {
    throw error_in(file_of(db_), "is damaged: " + std::string(sqlite3_errmsg(db_)), damaged_hint);
  }
  // A damaged file may ask for more memory than there is, or for pages beyond its end.
  const bool read_alone = sqlite3_db_readonly(db_, "main") == 1;
  if (read_alone && result != SQLITE_BUSY && result != SQLITE_LOCKED) {
    throw error_in(file_of(db_), "cannot be read: " + std::string(sqlite3_errmsg(db_)),
                   std::string("if it is damaged, ") + damaged_hint);
  }
  throw std::runtime_error(
      fmt::format("{} cannot be written: {}", file_of(db_), sqlite3_errmsg(db_)));
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

int Statement::columns() const { return sqlite3_column_count(statement_); }
std::string Statement::name(int column) const {
  const std::string name = sqlite3_column_name(statement_, column);
  if (is_text(name)) return name;
  throw error_in(file_of(db_), "the name of a column is not UTF-8", damaged_hint);
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_, column);
  const std::string text = bytes != nullptr ? reinterpret_cast<const char*>(bytes) : "";
  if (is_text(text)) return text;
  throw error_in(file_of(db_), fmt::format("text in the column '{}' is not UTF-8", name(column)),
                 damaged_hint);
}

std::optional<SweepValue> Statement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return integer_value(integer(column));
    case SQLITE_FLOAT:
      return real_value(sqlite3_column_double(statement_, column));
    case SQLITE_NULL:
      return std::nullopt;
    default:
      return text_value(text(column));
  }
}

}  // namespace moesim
