// SPDX-License-Identifier: Apache-2.0
// The columns of a table of nccl-tests, of any version, and what a row has in them.
#pragma once

#include <string>
#include <vector>

#include "sim/linkfit/logs/nccl_test.h"

namespace moesim {

/// Columns after the times that rccl-tests add with -M: "algo", "proto", "nchannels".
bool names_algorithm(const std::string& column);

class NcclTable {
 public:
  NcclTable() = default;
  /// By the names from "size" on. Throws Error when a half lacks a column, and for times of the
  /// CPU.
  NcclTable(const std::vector<std::string>& columns, bool in_place, const std::string& file,
            int line);

  /// Words of a row after type, redop and root; 0 before there is a table.
  std::size_t words() const { return words_; }
  bool has_root() const { return has_root_; }
  bool has_redop() const { return has_redop_; }

  /// Adds a row to the test: its size, then at least words(). Throws Error for words that are not
  /// numbers and for wrong results.
  void add(const std::vector<std::string>& row, const std::string& file, int line,
           NcclTest& test) const;

 private:
  bool has_root_ = true, has_redop_ = true;
  bool timestamps_ = false;
  bool counts_wrong_ = true;  // else the last column is the largest deviation
  double to_microseconds_ = 1;
  std::vector<std::string> names_;  // from the first time on
  std::size_t words_ = 0;
  std::size_t time_ = 0;                         // of the chosen half
  std::size_t out_of_place_ = 0, in_place_ = 0;  // times of both halves
};

}  // namespace moesim
