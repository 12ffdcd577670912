// SPDX-License-Identifier: Apache-2.0
#include "sim/import/count_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/most.h"
#include "sim/import/count_limits.h"
#include "sim/import/file_content.h"
#include "sim/import/json_items.h"
#include "sim/import/printed_array.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

class CountRows {
 public:
  explicit CountRows(const std::string& path) : path_(path) {}

  void add(const std::string& text, int line) {
    const char separator = separator_of(text);
    const auto cells = cells_of(text, separator == '\0' ? ' ' : separator);
    const bool logged = text.find_first_of("=:{") != std::string::npos;
    if (rows_.empty() && !header_ && is_header(cells, logged)) return take_header(cells, line);
    auto& row = rows_[numbered_ ? number_of(cells.front(), line) : std::ssize(rows_)];
    if (!row.empty()) {
      throw error_in(path_, fmt::format("has two rows of {} {}", key_, cells.front()),
                     "a file holds one step", line);
    }
    for (std::size_t i = numbered_ ? 1 : 0; i < cells.size(); ++i) {
      row.push_back(count_of(cells[i], logged, line));
    }
    if (row.empty() || row.size() != rows_.begin()->second.size()) {
      throw error_in(path_, "has rows of different lengths", counts_hint, line);
    }
  }

  NpyArray array() const {
    if (rows_.empty()) throw error_in(path_, "holds no counts", counts_hint);
    const bool transposed = key_ == "expert";
    const std::int64_t count = std::ssize(rows_), columns = std::ssize(rows_.begin()->second);
    if (transposed && (rows_.begin()->first != 0 || rows_.rbegin()->first != count - 1)) {
      throw error_in(path_, fmt::format("has {} experts, but not 0 to {}", count, count - 1),
                     "a row for each expert, also without tokens");
    }
    std::vector<std::int32_t> values;
    for (const auto& [number, row] : rows_) values.insert(values.end(), row.begin(), row.end());
    if (!transposed) return NpyArray::of(std::move(values), {count, columns}, path_);
    std::vector<std::int32_t> turned;
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < count; ++row) {
        turned.push_back(values[static_cast<std::size_t>(row * columns + column)]);
      }
    }
    return NpyArray::of(std::move(turned), {columns, count}, path_);
  }

 private:
  /// Names above counts; above numbers of columns only the first cell is none, or empty.
  static bool is_header(const std::vector<std::string>& cells, bool logged) {
    return !value_of_text(cells.back()).numeric ||
           (!logged && cells.size() > 1 && !value_of_text(cells.front()).numeric);
  }

  void take_header(const std::vector<std::string>& cells, int line) {
    const std::string first = plain_name(cells.front());
    header_ = true;
    numbered_ = first.empty() || first.starts_with("layer") || first.starts_with("expert");
    key_ = first.starts_with("expert") ? "expert" : "layer";
    if (plain_name(cells.back()).starts_with("count")) {
      throw error_in(path_, "has a row per expert, not per layer", "kind 'table' reads it", line);
    }
  }

  std::int64_t number_of(const std::string& cell, int line) const {
    const auto number = layer_in_name(cell);
    if (number) return *number;
    throw error_in(path_, fmt::format("'{}' does not number a row", cell), counts_hint, line);
  }

  std::int32_t count_of(const std::string& cell, bool logged, int line) const {
    const TableValue value = value_of_text(cell);
    const double count = value.numeric && value.lists == 0 ? value.numbers.front() : -1;
    if (count > static_cast<double>(most_written_count)) refuse_large_count(path_, cell, line);
    if (count < 0 || count != static_cast<std::int32_t>(count)) {
      throw error_in(path_, fmt::format("'{}' is not a count", cell),
                     logged ? "kind 'table' reads logs and metrics" : counts_hint, line);
    }
    return static_cast<std::int32_t>(count);
  }

  const std::string& path_;
  std::map<std::int64_t, std::vector<std::int32_t>> rows_;  // by their numbers
  bool header_ = false, numbered_ = false;
  std::string key_ = "layer";  // what a row is of
};

/// The last number in a key: 7 of "model.layers.7.mlp".
std::optional<std::int64_t> number_of_key(const std::string& key) {
  const std::size_t last = key.find_last_of("0123456789");
  if (last == std::string::npos) return std::nullopt;
  const std::size_t before = key.find_last_not_of("0123456789", last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return last - first > 8 ? std::nullopt
                          : std::optional(std::stoll(key.substr(first, last - first + 1)));
}

using CountsByExpert = std::map<std::int64_t, std::int64_t>;

/// -1 for what is not a count. Throws Error for a count that is too large.
std::int64_t json_count(const std::optional<JsonElement>& value, const std::string& where) {
  const std::int64_t count = json_number(value, std::numeric_limits<std::int64_t>::max());
  if (count > most_written_count) refuse_large_count(where, std::to_string(count));
  return count;
}

/// What a key of an object holds for a layer: a list, or an object of counts by expert. Nothing for
/// anything else.
std::optional<CountsByExpert> counts_of_layer(const JsonElement& value, const std::string& where) {
  CountsByExpert counts;
  if (value.is_array()) {
    std::int64_t expert = 0;
    for (const JsonElement item : simdjson::dom::array(value)) {
      counts[expert++] = json_count(item, where);
    }
  } else {
    for (const std::string& key : json_keys(value)) {
      const auto expert = number_of_key(key);
      if (!expert || *expert >= max_experts) return std::nullopt;
      counts[*expert] = json_count(json_at(value, key.c_str()), where);
    }
  }
  const bool sound =
      std::ranges::all_of(counts, [](const auto& count) { return count.second >= 0; });
  return sound && !counts.empty() ? std::optional(counts) : std::nullopt;
}

/// The layers of an object in the order of its keys' numbers; experts that one does not name have
/// no tokens there.
std::string lists_by_key(const JsonElement& object, const std::string& where) {
  std::map<std::int64_t, CountsByExpert> layers;
  std::int64_t experts = 0;
  for (const std::string& key : json_keys(object)) {
    const auto number = number_of_key(key);
    const auto counts = counts_of_layer(*json_at(object, key.c_str()), where);
    if (!number || !counts || !layers.emplace(*number, *counts).second) {
      throw error_in(where, fmt::format("'{}' does not hold the counts of a layer", key),
                     counts_hint);
    }
    experts = std::max(experts, counts->rbegin()->first + 1);
  }
  std::vector<std::string> texts;
  for (const auto& [number, counts] : layers) {
    std::vector<std::int64_t> row(static_cast<std::size_t>(experts));
    for (const auto& [expert, count] : counts) row[static_cast<std::size_t>(expert)] = count;
    texts.push_back(fmt::format("[{}]", fmt::join(row, ",")));
  }
  return fmt::format("[{}]", fmt::join(texts, ","));
}

/// The only key that says that it holds counts, {"metadata": {}, "expert_counts": {}}; "" if there
/// is none.
std::string key_of_counts(const JsonElement& object) {
  std::string found;
  for (const std::string& key : json_keys(object)) {
    const std::string plain = plain_name(key);
    const auto value = json_at(object, key.c_str());
    const bool named = plain.find("count") != std::string::npos || plain == "tokensperexpert" ||
                       plain.starts_with("expertload") || plain == "load" || plain == "loads";
    if (!named || !value || (axes_of(*value) < 2 && !value->is_object())) continue;
    if (!found.empty()) return "";
    found = key;
  }
  return found;
}

/// An object with one list of several axes, {"logical_count": [[3, 1]]}, is that list; the rest of
/// an object that names its counts is about them.
std::string lists_in(const JsonElement& object, const std::string& where) {
  const auto keys = json_keys(object);
  const std::string counts =
      number_of_key(keys.empty() ? "" : keys.front()) ? "" : key_of_counts(object);
  if (!counts.empty()) {
    const JsonElement its = *json_at(object, counts.c_str());
    return its.is_object() ? lists_by_key(its, where) : simdjson::minify(its);
  }
  const auto only = keys.size() == 1 ? json_at(object, keys.front().c_str()) : std::nullopt;
  if (only && only->is_array() && axes_of(*only) > 1) return simdjson::minify(*only);
  return lists_by_key(object, where);
}

/// Whether a value of an object is a list of objects.
bool holds_objects(const JsonElement& object) {
  return std::ranges::any_of(json_keys(object), [&](const std::string& key) {
    simdjson::dom::array items;
    const auto value = json_at(object, key.c_str());
    return value && value->get(items) == simdjson::SUCCESS && items.size() > 0 &&
           items.at(0).is_object();
  });
}

NpyArray array_of_text(const std::string& text, const std::string& path) {
  simdjson::dom::parser parser;
  JsonElement all;
  if (parser.parse(text).get(all) != simdjson::SUCCESS) {
    throw error_in(path, "holds more than lists of counts", counts_hint);
  }
  return array_of_lists(all, axes_of(all), path, "counts");
}

/// The lines of a file of which each is a matrix of several rows, the next step; nothing for other
/// files.
std::optional<std::string> matrices_in(const std::string& path) {
  LineFile lines(path);
  std::vector<std::string> steps;
  for (std::string line; lines.next(line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    const std::size_t last = line.find_last_not_of(" \t\r");
    steps.push_back(line.substr(first, last - first + 1));
    const bool rows = std::ranges::count(steps.back(), '[') > 2;
    if (!rows || !steps.back().starts_with("[[") || !steps.back().ends_with("]]")) {
      return std::nullopt;
    }
  }
  if (steps.size() < 2) return std::nullopt;
  return fmt::format("[{}]", fmt::join(steps, ","));
}

NpyArray json_counts(const std::string& path) {
  if (const auto steps = matrices_in(path)) return array_of_text(*steps, path);
  if (const auto printed = printed_lists_in(path)) return array_of_text(*printed, path);
  JsonItems items(path);
  std::vector<std::string> lists;
  std::string text;
  while (items.next()) {
    if (!text.empty()) {
      throw error_in(path, "holds more than one object of counts", counts_hint, items.line());
    }
    if (items.item().is_object() && lists.empty()) {
      if (holds_objects(items.item()) && holds_json_rows(path)) {
        throw error_in(path, "has rows of counts, not lists by layer", "kind 'table' reads it",
                       items.line());
      }
      text = lists_in(items.item(), items.where());
    }
    lists.push_back(items.text());
  }
  if (text.empty()) text = fmt::format("[{}]", fmt::join(lists, ","));
  return array_of_text(text, path);
}

}  // namespace

void refuse_large_count(const std::string& where, const std::string& count, int line) {
  throw error_in(where,
                 fmt::format("holds a count of {}; at most {} can be", count, most_written_count),
                 fewer_tokens_hint, line);
}

NpyArray count_rows(const std::string& path) {
  CountRows rows(path);
  LineFile lines(path);
  for (std::string line; lines.next(line);) {
    if (line.front() != '#') rows.add(line, lines.line_number());
  }
  return rows.array();
}

NpyArray count_array_in(const std::string& path) {
  const FileForm form = form_of(path);
  if (form == FileForm::json) return json_counts(path);
  if (form != FileForm::text) return NpyArray::open(path);
  const auto printed = printed_lists_in(path);
  return printed ? array_of_text(*printed, path) : count_rows(path);
}

}  // namespace moesim
