// SPDX-License-Identifier: Apache-2.0
// Logs in JSON lines, CSV or plain text of any program: a row per choice, per token and layer, or
// per batch; or counts of experts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "sim/base/most.h"
#include "sim/import/count_limits.h"
#include "sim/import/counts.h"
#include "sim/import/dump_names.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/layer_numbering.h"
#include "sim/import/table_tokens.h"
#include "sim/import/table_values.h"
#include "sim/import/unnamed_counts.h"

namespace moesim {
namespace {

/// Counts of rows by step, source and layer.
class LoggedCounts {
 public:
  explicit LoggedCounts(ImportSink& sink) : sink_(sink) {}

  void begin_file(const std::string& path) {
    rank_ = rank_in_name(path);
    ++file_;
  }
  bool empty() const { return steps_.empty(); }
  void add(const TableRow& row) {
    const auto& known = sink_.options().known_layers();
    std::optional<std::int64_t> layer = row.layer;
    if (!layer && known.size() == 1) layer = known.front();
    if (!layer) layer = layer_of_file(row.file);
    if (!layer || *layer < 0 || *layer > max_layer_number) {
      throw error_in(row.file, "does not say the layer of its counts",
                     "--map layer=FIELD names it; --layers N where all rows are of layer N",
                     row.line);
    }
    const auto rank = row.rank ? row.rank : rank_;
    ranked_ = ranked_ || rank.has_value();
    const int dump = row.step ? 0 : dump_of({rank, row.phase}, static_cast<int>(*layer));
    const std::string step = fmt::format("{:020} {} {:010}", row.step.value_or(0), row.phase, dump);
    auto& counts = steps_[step][rank.value_or(0)][static_cast<int>(*layer)];
    where_ = row.file;
    if (row.experts.empty()) {
      for (std::size_t e = 0; e < row.counts.size(); ++e) {
        add_count(counts[static_cast<std::int64_t>(e)], row.counts[e], row);
      }
      longest_ = std::max(longest_, row.counts.size());
      return;
    }
    if (row.experts.size() != row.counts.size()) {
      throw error_in(row.file, "has other counts than experts", "", row.line);
    }
    for (std::size_t i = 0; i < row.counts.size(); ++i) {
      add_count(counts[row.experts[i]], row.counts[i], row);
    }
  }
  void hand_over() {
    if (longest_ > 0) check_expert_count(static_cast<std::int64_t>(longest_), sink_, where_);
    std::map<std::int64_t, std::size_t> sources;
    std::map<int, std::size_t> layers;
    for (const auto& [step, of_rank] : steps_) {
      for (const auto& [rank, of_layer] : of_rank) {
        sources.emplace(rank, 0);
        for (const auto& [layer, counts] : of_layer) layers.emplace(layer, 0);
      }
    }
    std::vector<int> numbers;
    for (const auto& [layer, unused] : layers) numbers.push_back(layer);
    if (sink_.options().layers.empty()) {
      numbers = numbered_layers(numbers, sink_.options(), where_);
    } else {
      numbers.clear();
    }
    std::vector<CountedStep> steps;
    for (const auto& [name, of_rank] : steps_) {
      const std::int64_t number = std::ssize(steps);
      CountedStep& step = steps.emplace_back();
      step.where = fmt::format("{}, step {}", where_, number);
      step.number = number;
      step.source = ranked_ ? CountedSource::rank : CountedSource::unknown;
      for (const auto& [layer, unused] : layers) {
        auto& its = step.counts.emplace_back();
        for (const auto& [rank, also_unused] : sources) {
          its.push_back(counts_of(of_rank, rank, layer));
        }
      }
      step.layers = numbers;
    }
    check_choices(steps);
    for (CountedStep& step : steps) add_counts(std::move(step), sink_);
  }

 private:
  using OfExpert = std::map<std::int64_t, std::int64_t>;
  using OfLayer = std::map<int, OfExpert>;
  using OfRank = std::map<std::int64_t, OfLayer>;
  using Source = std::pair<std::optional<std::int64_t>, std::string>;  // a rank in a phase
  struct Dumps {
    int file = 0, number = 0;
    std::set<int> layers;  // of the last dump
  };

  /// Adds to a sum that cannot overflow.
  static void add_count(std::int64_t& sum, std::int64_t count, const TableRow& row) {
    sum += count;
    if (std::abs(sum) <= most_count) return;
    throw error_in(row.file,
                   fmt::format("counts an expert {} times; at most {} can be", sum, most_count),
                   fewer_tokens_hint, row.line);
  }

  /// Files of the same source are dumps one after the other. Files of other layers of a rank are
  /// of one dump.
  int dump_of(const Source& source, int layer) {
    Dumps& its = dumps_[source];
    if (its.file != file_ && (!source.first || its.layers.contains(layer))) {
      ++its.number;
      its.layers.clear();
    }
    its.file = file_;
    its.layers.insert(layer);
    return its.number;
  }

  /// Loggers count as they like: choices with repeats, or of other tokens than the model's top-k
  /// has. Then each choice is a token, and loads are what the file says.
  void check_choices(const std::vector<CountedStep>& steps) {
    const int top_k = sink_.options().top_k;
    if (top_k < 2) return;
    for (const CountedStep& step : steps) {
      if (can_be_dealt(step, top_k)) continue;
      sink_.warn({Severity::warning, step.where, 0, 0,
                  fmt::format("its counts are not of {} different experts a token: each choice is "
                              "taken for a token of its own, top-1",
                              top_k),
                  "", "loads are as counted; the trace does not fit a model of another top-k"});
      return sink_.takes_choices_for_tokens();
    }
  }

  std::vector<std::int64_t> counts_of(const OfRank& of_rank, std::int64_t rank, int layer) const {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(sink_.experts()));
    const auto of_layer = of_rank.find(rank);
    if (of_layer == of_rank.end()) return counts;
    const auto its = of_layer->second.find(layer);
    if (its == of_layer->second.end()) return counts;
    for (const auto& [expert, count] : its->second) {
      if (expert < 0 || expert >= std::ssize(counts)) {
        throw error_in(where_,
                       fmt::format("layer {}: counts expert {} of a model with {} experts", layer,
                                   expert, counts.size()),
                       "more than the model's are slots or shared experts");
      }
      counts[static_cast<std::size_t>(expert)] = count;
    }
    return counts;
  }

  ImportSink& sink_;
  std::map<std::string, OfRank> steps_;
  std::map<Source, Dumps> dumps_;
  std::optional<std::int64_t> rank_;  // of the file
  std::string where_;
  std::size_t longest_ = 0;  // list of counts
  int file_ = 0;
  bool ranked_ = false;
};

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
  auto map = sink.options().map;
  if (const auto field = paths.empty() ? std::nullopt : unnamed_counts(paths.front(), sink)) {
    map.push_back("count=" + *field);
  }
  TableReader reader(
      map,
      [&](TableRow& row) {
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
  warn_of_scrapes(*facts, paths.front(), sink);
  if (facts->cut_lines > 0) sink.drop("of a line that is cut short", facts->cut_lines);
  kinds.check();
  if (!tokens.empty()) tokens.hand_over();
  if (!counts.empty()) hand_counts_over(counts, *facts);
}

void import_table(ImportSink& sink) { add_tables(input_files(sink.options().inputs), sink); }

}  // namespace moesim
