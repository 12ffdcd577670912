// SPDX-License-Identifier: Apache-2.0
// Logs in JSON lines, CSV or plain text of any program: a row per choice, per token and layer, or
// per batch; or counts of experts. Tables of counts may not say that they are: then each expert is
// there once per layer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/logged_counts.h"
#include "sim/import/table_rows.h"
#include "sim/import/table_tokens.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

/// The experts of each layer of a table, as long as no row repeats one before all were there.
class ExpertsOfLayers {
 public:
  ExpertsOfLayers(int top_k, int experts) : top_k_(top_k), all_(experts) {}

  /// Whether rows can be experts; otherwise no more of them matter.
  bool add(const TableRow& row) {
    if (row.experts.size() != 1 || row.lists > 0 || row.slot || !row.counts.empty() ||
        !row.weights.empty()) {
      return false;
    }
    auto& its = experts_[{row.request, row.phase, row.step.value_or(-1), row.rank.value_or(-1),
                          row.token.value_or(-1), row.layer.value_or(-1)}];
    const std::int32_t expert = row.experts.front();
    if (all_ > 1 && std::ssize(its) == all_ && !row.token) its.clear();  // counted again
    if (std::ranges::find(its, expert) != its.end()) return false;
    of_tokens_ = of_tokens_ || row.token.has_value();
    ascending_ = ascending_ && (its.empty() || its.back() < expert);
    its.push_back(expert);
    most_ = std::max(most_, its.size());
    // A log of tokens is long, and its first tokens show that each has few rows of a layer.
    return !row.token || experts_.size() < 64 || most_ > static_cast<std::size_t>(top_k_);
  }
  bool more_than_choices() const { return top_k_ > 0 && most_ > static_cast<std::size_t>(top_k_); }
  bool ascending() const { return ascending_; }
  /// Whether nothing but counts has such rows, even if they name none. Two tokens may happen to.
  bool counts_without_name(int experts) const {
    return ascending_ && !of_tokens_ &&
           (all(experts) || most_ > 2 * static_cast<std::size_t>(top_k_));
  }
  bool all(int experts) const {
    return experts > 1 && !experts_.empty() &&
           std::ranges::all_of(
               experts_, [&](const auto& layer) { return std::ssize(layer.second) == experts; });
  }

 private:
  using Key =
      std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::vector<std::int32_t>> experts_;
  int top_k_, all_;
  std::size_t most_ = 0;
  bool ascending_ = true, of_tokens_ = false;
};

const std::string listed = "has each expert once per layer";
const std::string hint = "--map count=FIELD names counts, token=FIELD the token of a choice";

/// Reading ends here: the rest of the file does not matter.
struct EnoughRows {};

/// Reads rows until `use` returns false, or to what cannot be read; returns whether that was not
/// before the end.
bool read_while(const std::string& path, const std::vector<std::string>& map, TableFacts& facts,
                const std::function<bool(const TableRow&)>& use) {
  try {
    TableReader reader(
        map,
        [&](TableRow& row) {
          if (!use(row)) throw EnoughRows();
        },
        [](double) {});
    reader.read(path);
    reader.finish();
    facts = reader.facts();
    return true;
  } catch (const EnoughRows&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

/// The only field with whole numbers that no row of a table uses, if it lists each expert once per
/// layer: it is taken for counts, with a warning. Throws Error for such a table if no field, or
/// several, can be counts; warns if rows may as well be choices.
std::optional<std::string> unnamed_counts(const std::string& path, ImportSink& sink) {
  const ImportOptions& options = sink.options();
  ExpertsOfLayers layers(options.top_k, options.experts);
  TableFacts facts;
  const auto& known = options.known_layers();
  std::optional<TableRow> odd;
  const bool once = read_while(path, options.map, facts, [&](const TableRow& row) {
    if (!odd && !row.odd_count.empty()) odd = row;
    return (row.layer || known.size() == 1) && layers.add(row);
  });
  const int experts = options.experts > 0 ? options.experts : facts.experts;
  if (!once || !(layers.all(experts) || layers.more_than_choices())) return std::nullopt;
  if (!facts.unused || facts.unused->empty()) {
    if (layers.counts_without_name(experts)) {
      throw error_in(path, listed + " in their order, without counts and tokens", hint);
    }
    return std::nullopt;
  }
  std::vector<std::string> fields;
  for (const std::string& field : *facts.unused) {
    auto map = options.map;
    map.push_back("count=" + field);
    TableFacts others;
    const bool counts =
        read_while(path, map, others, [](const TableRow& row) { return row.counts.size() == 1; });
    if (counts) fields.push_back(field);
  }
  if (!layers.all(experts) && !layers.ascending()) {
    sink.warn({Severity::warning, path, 0, 0,
               fmt::format("{}: counts? Rows are taken for choices, and {} for nothing", listed,
                           fmt::join(*facts.unused, ", ")),
               "", hint});
    return std::nullopt;
  }
  if (fields.empty() && odd) throw error_in(path, odd->odd_count, odd_count_hint, odd->line);
  if (fields.size() != 1) {
    throw error_in(path,
                   fmt::format("{}, and no field is known to count its tokens: {}", listed,
                               fmt::join(*facts.unused, ", ")),
                   hint + "; counts are whole numbers");
  }
  sink.warn({Severity::warning, path, 0, 0,
             fmt::format("{}: '{}' is taken for counts", listed, fields.front()), "", hint});
  return fields.front();
}

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
