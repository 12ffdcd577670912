// SPDX-License-Identifier: Apache-2.0
#include "sim/import/unnamed_counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "sim/import/table_rows.h"
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

}  // namespace

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

}  // namespace moesim
