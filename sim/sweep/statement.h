// SPDX-License-Identifier: Apache-2.0
// SQLite's statements, whose errors are exceptions.
#pragma once

#include <optional>
#include <string>

#include "sim/sweep/row.h"

struct sqlite3;
struct sqlite3_stmt;

namespace moesim {

/// What to do about a damaged file: a sweep loses no rows, so something else has changed it.
inline constexpr const char* damaged_hint = "copy it again, or remove it and run the sweep again";

/// Throws Error with what SQLite says.
sqlite3* open_database(const std::string& path, int flags);
void execute(sqlite3* db, const std::string& sql);

class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Places count from 1.
  void bind(int place, const SweepValue& value);
  /// Whether there is a row. Throws Error if the file is damaged, std::runtime_error if it cannot
  /// be written, with what SQLite says.
  bool step();
  /// To be bound and run again.
  void reset();
  int columns() const;
  std::string name(int column) const;
  std::int64_t integer(int column) const;
  std::string text(int column) const;
  std::optional<SweepValue> value(int column) const;  // nothing for null

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
};

/// A name as SQL quotes it.
std::string sql_name(const std::string& name);
/// A text as SQL quotes it.
std::string sql_text(const std::string& text);

}  // namespace moesim
