// SPDX-License-Identifier: Apache-2.0
// Rows of a sweep's file that something else than a sweep has changed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/store.h"

namespace moesim {

/// Throws Error unless every row has one of the three states.
void check_states(sqlite3* db, const std::string& path);

/// Whether the rows that are 'ok' have finite numbers as figures, and no times or bytes below zero.
class FigureCheck {
 public:
  FigureCheck(const std::vector<std::string>& axes, std::string path)
      : axes_(axes.begin(), axes.end()), path_(std::move(path)) {}

  /// Throws Error for a number that is none of its column.
  void see(const SweepRow& row);
  /// Throws Error for a text in a column that has numbers in other rows.
  void finish() const;

 private:
  struct Column {
    bool unit = false;                          // in its name: seconds or bytes
    bool numbers = false;                       // by its name, or because a row has one
    std::optional<std::int64_t> text_row = {};  // the first that has a text
  };
  std::set<std::string> axes_;
  std::string path_;
  std::map<std::string, Column> columns_;
};

/// The same for rows in memory. Throws Error.
void check_figures(const StoredRows& rows, const std::vector<std::string>& axes,
                   const std::string& path);

}  // namespace moesim
