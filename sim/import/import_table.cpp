// SPDX-License-Identifier: Apache-2.0
// Logs in JSON lines, CSV or plain text of any program: a row per choice, per token and layer, or
// per batch; or counts of experts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/import/dump_names.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/logged_counts.h"
#include "sim/import/table_tokens.h"
#include "sim/import/table_values.h"
#include "sim/import/unnamed_counts.h"

namespace moesim {
namespace {

/// Which kinds of rows there are: choices and counts do not go together.
class RowKinds {
 public:
  void note(const TableRow& row, bool counted) {
    auto& first = counted ? counts_ : choices_;
    if (!first) first = {row.file, row.line};
    if (!row.odd_count.empty() && odd_count_.empty()) {
      odd_count_ = row.odd_count;
      odd_ = {row.file, row.line};
    }
  }
  void check() const {
    if (!choices_ || !counts_) return;
    if (!odd_count_.empty()) {
      throw error_in(odd_.file, odd_count_, odd_count_hint, odd_.line);
    }
    const bool later = counts_->file == choices_->file && counts_->line < choices_->line;
    const Place& second = later ? *choices_ : *counts_;
    throw error_in(second.file, "holds choices of tokens and counts of experts", "give one kind",
                   second.line);
  }

 private:
  struct Place {
    std::string file;
    int line = 0;
  };
  std::optional<Place> choices_, counts_;  // the first row of each kind
  Place odd_ = {};
  std::string odd_count_;
};

/// Header lines may come anywhere, as logs of several runs are joined.
void check_facts(const TableFacts& facts, const std::string& file, ImportSink& sink) {
  if (facts.experts > 0) sink.says_experts(facts.experts, file);
  if (facts.top_k > 0) sink.says_top_k(facts.top_k, file);
}

/// Counts that do not add up may lack those of a line that is cut short.
void hand_counts_over(LoggedCounts& counts, const TableFacts& facts) {
  try {
    counts.hand_over();
  } catch (const Error& e) {
    if (facts.cut_lines == 0) throw;
    throw error_in(facts.cut_file,
                   "its last line is cut short, and its counts do not add up: " +
                       e.diagnostics().front().message,
                   "give the whole file");
  }
}

/// Pages of counters do not say when counting began, nor of which server they are.
void warn_of_scrapes(const TableFacts& facts, const std::string& path, ImportSink& sink) {
  if (facts.totals) {
    sink.warn({Severity::warning, path, 0, 0,
               "one scrape of counters: what they counted since the server started is a step", "",
               "with a scrape before and one after a run, its tokens are the difference"});
  }
  if (facts.repeats_files) {
    sink.warn(
        {Severity::warning, path, 0, 0,
         "several files have the same series: taken for scrapes of one server; the first only "
         "begins the counting",
         "", "pages of several servers have rank0, rank1, ... in their names"});
  }
}

}  // namespace

void add_tables(const std::vector<std::string>& paths, ImportSink& sink) {
  LoggedTokens tokens(sink);
  LoggedCounts counts(sink);
  RowKinds kinds;
  double files = 0;
  const TableFacts* facts = nullptr;
  bool any_row = false;
  auto map = sink.options().map;
  if (const auto field = paths.empty() ? std::nullopt : unnamed_counts(paths.front(), sink)) {
    map.push_back("count=" + *field);
  }
  TableReader reader(
      map,
      [&](TableRow& row) {
        any_row = true;
        check_facts(*facts, row.file, sink);
        if (row.experts.empty() && !row.odd_count.empty()) {
          throw error_in(row.file, row.odd_count, odd_count_hint, row.line);
        }
        if (row.experts.empty() && row.lists > 0 && row.counts.empty()) {
          return sink.drop("of layers without chosen experts", row.lists);
        }
        const bool counted =
            row.experts.empty() || (row.lists == 0 && !row.counts.empty() && !row.token);
        kinds.note(row, counted);
        if (counted) return counts.add(row);
        tokens.add(row);
      },
      [&](double done) { sink.progress((files + done) / static_cast<double>(paths.size())); });
  facts = &reader.facts();
  for (const std::string& path : in_order_of_time(paths)) {
    tokens.begin_file();
    counts.begin_file(path);
    reader.read(path);
    ++files;
  }
  reader.finish();
  if (!paths.empty() && !any_row && facts->cut_lines == 0) {
    throw error_in(paths.front(), "has no rows below the names of its columns");
  }
  warn_of_scrapes(*facts, paths.front(), sink);
  if (facts->cut_lines > 0) sink.drop("of a line that is cut short", facts->cut_lines);
  kinds.check();
  if (!tokens.empty()) tokens.hand_over();
  if (!counts.empty()) hand_counts_over(counts, *facts);
}

void import_table(ImportSink& sink) { add_tables(input_files(sink.options().inputs), sink); }

}  // namespace moesim
