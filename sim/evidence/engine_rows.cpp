// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/engine_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

constexpr const char* concurrency_mark = "silicon_concurrency=";

/// The cells of a line by the names of their columns.
class RowCells {
 public:
  RowCells(const LineFile& file, const std::map<std::string, std::size_t>& columns,
           std::vector<std::string> cells)
      : file_(file), columns_(columns), cells_(std::move(cells)) {}

  const std::string& text(const std::string& column) const {
    const auto at = columns_.find(column);
    if (at == columns_.end()) {
      throw error_in(file_.path(), fmt::format("no column '{}'", column),
                     "a table of ai-dynamo/aiconfigurator's silicon data", 1);
    }
    if (at->second >= cells_.size()) {
      throw error_in(file_.path(), fmt::format("{} cells and no '{}'", cells_.size(), column), "",
                     file_.line_number());
    }
    return cells_[at->second];
  }
  bool has(const std::string& column) const { return !text(column).empty(); }
  double number(const std::string& column) const { return number_in(column, text(column)); }
  std::int64_t count(const std::string& column, std::int64_t absent) const {
    return has(column) ? static_cast<std::int64_t>(number(column)) : absent;
  }
  double number_in(const std::string& column, const std::string& text) const {
    double value = 0;
    const auto [end, error] = read_number(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw error_in(file_.path(), fmt::format("'{}' is '{}', no number", column, text), "",
                     file_.line_number());
    }
    return value;
  }

 private:
  const LineFile& file_;
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> cells_;
};

/// Of the note on a row's source; 0: it does not say.
std::int64_t concurrency_of(const RowCells& cells) {
  const std::string& note = cells.text("silicon_data_source");
  const auto at = note.find(concurrency_mark);
  if (at == std::string::npos) return 0;
  const auto begin = at + std::string(concurrency_mark).size();
  const auto end = note.find_first_not_of("0123456789", begin);
  return static_cast<std::int64_t>(
      cells.number_in("silicon_data_source", note.substr(begin, end - begin)));
}

EngineDegrees degrees_of(const RowCells& cells, const std::string& pool) {
  const auto degree = [&](const char* name) {
    return static_cast<int>(cells.count(pool + name, 1));
  };
  return {degree("tp_size"), degree("attention_dp_size"), degree("moe_tp_size"),
          degree("moe_ep_size")};
}

bool fits_together(const EngineDegrees& degrees) {
  return degrees.gpus() == degrees.moe_tp * degrees.moe_ep;
}

std::string unstated_in(const EngineRow& row, const RowCells& cells) {
  if (row.concurrency == 0) return "its concurrency";
  if (row.decode) {
    const bool counted = cells.has("prefill_num_workers") && cells.has("decode_num_workers");
    if (!counted) return "how many workers there are";
  } else if (!cells.has("attention_dp_size")) {
    return "its attention DP";
  }
  const bool whole = fits_together(row.prompts) && (!row.decode || fits_together(*row.decode));
  return whole ? "" : "degrees that make a layout";
}

EngineRow row_of(const RowCells& cells) {
  EngineRow row;
  row.id = cells.text("id");
  row.backend = cells.text("backend");
  row.version = cells.text("backend_version");
  row.model = cells.text("model_path");
  row.system = cells.text("system");
  row.precision = cells.text("precision");
  row.input = cells.count("isl", 0);
  row.output = cells.count("osl", 0);
  row.concurrency = concurrency_of(cells);
  const bool apart = cells.text("mode") == "disagg";
  row.prompts = degrees_of(cells, apart ? "prefill_" : "");
  if (apart) {
    row.decode = degrees_of(cells, "decode_");
    row.prompt_instances = static_cast<int>(cells.count("prefill_num_workers", 1));
    row.decode_instances = static_cast<int>(cells.count("decode_num_workers", 1));
  }
  row.ttft = cells.number("silicon_ttft_ms") / 1e3;
  row.tpot = cells.number("silicon_tpot_ms") / 1e3;
  row.unstated = unstated_in(row, cells);
  return row;
}

}  // namespace

std::vector<EngineRow> read_engine_rows(const std::string& path) {
  LineFile file(path);
  std::string line;
  if (!file.next(line)) throw error_in(path, "has no line", "a CSV with the names of its columns");
  std::map<std::string, std::size_t> columns;
  for (const std::string& name : cells_of(line, ',')) columns.emplace(name, columns.size());
  std::vector<EngineRow> rows;
  while (file.next(line)) {
    const RowCells cells(file, columns, cells_of(line, ','));
    if (cells.count("layout_suspect", 0) == 0) rows.push_back(row_of(cells));
  }
  return rows;
}

}  // namespace moesim
