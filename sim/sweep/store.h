// SPDX-License-Identifier: Apache-2.0
// The SQLite file of a sweep. Its schema: docs/sweeps.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/sweep/row.h"
#include "sim/sweep/sweep_lock.h"

struct sqlite3;

namespace moesim {

class Statement;

/// What a store says of its sweep.
struct SweepAbout {
  std::string grid;  // hash of it
  std::string file;  // that the grid was read from
  std::int64_t scenarios = 0;
  std::vector<std::string> axes;
};

class SweepStore {
 public:
  /// Opens a sweep's file for writing, or makes it. Throws Error if it holds another grid's
  /// results, is not such a file, or another process writes to it.
  SweepStore(const std::string& path, const SweepAbout& about);
  ~SweepStore();
  SweepStore(const SweepStore&) = delete;
  SweepStore& operator=(const SweepStore&) = delete;

  /// Adds rows: all of them, or none if the process ends before it is done. Those of ids that are
  /// there stay as they are, unless they failed.
  void add(const std::vector<SweepRow>& rows);
  /// Adds rows in the place of those of their ids, in one piece as well.
  void replace(const std::vector<SweepRow>& rows);
  /// Ids of rows that no other try can change.
  std::set<std::int64_t> ids() const;

 private:
  void write(const std::vector<SweepRow>& rows, bool replace);
  void make(const SweepAbout& about);
  void check(const SweepAbout& about) const;
  Statement& insert_of(const SweepRow& row);
  void add_column(const std::string& name);
  void add_row(const SweepRow& row);

  struct Insert {
    std::vector<std::string> columns;  // that it fills
    std::unique_ptr<Statement> statement;
  };

  std::string path_;
  SweepLock lock_;
  sqlite3* db_ = nullptr;
  std::map<std::string, std::string> columns_;  // their names by those in small letters
  std::vector<Insert> inserts_;
  std::unique_ptr<Statement> remove_failed_;
};

/// A value of a result; nothing is null.
using StoredValue = std::optional<SweepValue>;

/// What a query gives.
struct StoredRows {
  std::vector<std::string> columns;
  std::vector<std::vector<StoredValue>> rows;
};

/// Reads a sweep's file, also while it is being written.
class SweepReader {
 public:
  /// Throws Error if there is none.
  explicit SweepReader(const std::string& path);
  ~SweepReader();
  SweepReader(const SweepReader&) = delete;
  SweepReader& operator=(const SweepReader&) = delete;

  const std::string& path() const { return path_; }
  SweepAbout about() const;
  /// Throws Error that says what there is instead if no scenario has figures.
  void require_figures() const;
  /// Columns of the table of scenarios.
  std::vector<std::string> columns() const;
  /// Returns the rows of one SQL statement. Throws Error with what SQLite says.
  StoredRows query(const std::string& sql) const;
  /// Calls `take` for rows as a worker made them.
  void rows(const std::function<void(SweepRow)>& take) const;

 private:
  std::string path_;
  sqlite3* db_ = nullptr;
};

/// What SQLite and writers keep next to a sweep's file, by the endings of their names.
inline constexpr const char* beside_sweep_file[] = {"-wal", "-shm", "-journal", "-lock"};

/// Rows that no other try can change, which a condition and a query end in.
inline constexpr const char* final_rows = " FROM scenarios WHERE state <> 'failed'";

}  // namespace moesim
