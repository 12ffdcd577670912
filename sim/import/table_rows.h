// SPDX-License-Identifier: Apache-2.0
// The rows of logs in JSON lines, CSV or plain text, whatever they call their fields.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/import/prometheus_counters.h"
#include "sim/import/table_fields.h"

namespace moesim {

class ImportSink;

/// One row; what it does not say is absent.
struct TableRow {
  std::string file;
  int line = 0;
  std::string request = "", phase = "";
  std::optional<std::int64_t> step = {}, rank = {}, token = {}, layer = {}, slot = {};
  std::vector<std::int32_t> experts = {};  // ids, list after list
  std::int64_t lists = 0;                  // that the ids come in: tokens, or layers; 0: one id
  bool nested = false;                     // the lists are in a list
  std::vector<float> weights = {};         // as many as ids, or none
  std::vector<std::int64_t> counts = {};   // of the expert, or of all experts
  std::string odd_count = {};              // why a field of counts holds none; empty: it does
};

/// What a log says in addition to its rows.
struct TableFacts {
  int experts = 0, top_k = 0;                           // 0: nothing
  std::optional<std::vector<std::string>> unused = {};  // fields with numbers; none before a row
  std::int64_t cut_lines = 0;                           // at the ends of files
  std::string cut_file = {};                            // the first with one
  bool totals = false;         // counters of a scrape that nothing precedes count from their start
  bool repeats_files = false;  // scrapes in several files have the same series
};

/// Reads the rows of one file, and what its other lines say. Throws Error for a file that holds
/// none, with the fields that it has.
class TableReader {
 public:
  using Use = std::function<void(TableRow& row)>;
  using Progress = std::function<void(double done)>;
  TableReader(const std::vector<std::string>& map, Use use, Progress progress)
      : fields_(map), use_(std::move(use)), progress_(std::move(progress)) {}

  void read(const std::string& path);
  /// Uses rows that wait for later files.
  void finish();
  const TableFacts& facts() const { return facts_; }

 private:
  void read_json(const std::string& path);
  void read_text(const std::string& path);

  TableFields fields_;
  Use use_;
  Progress progress_;
  TableFacts facts_;
  PrometheusCounters counters_;
};

/// Hands over all rows of logs and tables, as kind `table` reads them (import_table.cpp).
void add_tables(const std::vector<std::string>& paths, ImportSink& sink);

/// Whether the first values of a JSON file are rows, not responses or other documents.
bool holds_json_rows(const std::string& path);

}  // namespace moesim
