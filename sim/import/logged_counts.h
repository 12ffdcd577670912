// SPDX-License-Identifier: Apache-2.0
// Counts of experts in the rows of logs and tables.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/import/counts.h"
#include "sim/import/input_hash.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// Counts of rows by step, source and layer.
class LoggedCounts {
 public:
  explicit LoggedCounts(ImportSink& sink) : sink_(sink) {}

  void begin_file(const std::string& path) {
    rank_ = rank_in_name(path);
    ++file_;
  }
  bool empty() const { return steps_.empty(); }
  /// Throws Error for a row that does not say its layer.
  void add(const TableRow& row);
  /// All steps in their order. Throws Error if counts are not of the model's experts or top-k.
  void hand_over();

 private:
  using OfExpert = std::map<std::int64_t, std::int64_t>;
  using OfLayer = std::map<int, OfExpert>;
  using OfRank = std::map<std::int64_t, OfLayer>;
  using Source = std::pair<std::optional<std::int64_t>, std::string>;  // a rank in a phase
  struct Dumps {
    int file = 0, number = 0;
    std::set<int> layers;  // of the last dump
  };

  /// Whether some row counts a token in the layer.
  bool has_tokens(int layer) const;

  /// Leaves out layers that the model has no experts in if nothing counts tokens there.
  void leave_out_dense(std::map<int, std::size_t>& layers) const;

  /// Adds to a sum that cannot overflow.
  static void add_count(std::int64_t& sum, std::int64_t count, const TableRow& row);

  /// Files of the same source are dumps one after the other. Files of other layers of a rank are
  /// of one dump.
  int dump_of(const Source& source, int layer);

  /// Loggers count as they like: choices with repeats, or of other tokens than the model's top-k
  /// has. Then each choice is a token, and loads are what the file says.
  void check_choices(const std::vector<CountedStep>& steps);

  std::vector<std::int64_t> counts_of(const OfRank& of_rank, std::int64_t rank, int layer) const;

  ImportSink& sink_;
  std::map<std::string, OfRank> steps_;
  std::map<Source, Dumps> dumps_;
  std::optional<std::int64_t> rank_;  // of the file
  std::string where_;
  std::size_t longest_ = 0;  // list of counts
  int file_ = 0;
  bool ranked_ = false;
};

}  // namespace moesim
