// SPDX-License-Identifier: Apache-2.0
#include "sim/import/count_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/base/most.h"
#include "sim/import/count_limits.h"
#include "sim/import/count_rows.h"
#include "sim/import/file_content.h"
#include "sim/import/json_items.h"
#include "sim/import/printed_array.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"

namespace moesim {
namespace {

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

NpyArray count_array_in(const std::string& path) {
  const FileForm form = form_of(path);
  if (form == FileForm::json) return json_counts(path);
  if (form != FileForm::text) return NpyArray::open(path);
  const auto printed = printed_lists_in(path);
  return printed ? array_of_text(*printed, path) : count_rows(path);
}

}  // namespace moesim
