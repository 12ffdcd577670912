// SPDX-License-Identifier: Apache-2.0
#include "sim/import/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/base/read_number.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

constexpr int most_depth = 32;

/// The layer that a key names: "3", "layer_3" or "model.layers.3.mlp"; -1 for other keys.
std::int64_t layer_of_key(std::string_view key) {
  if (key.find("layers.") != std::string_view::npos) return layer_in_name(key).value_or(-1);
  const auto digits = key.find_first_of("0123456789");
  if (digits == std::string_view::npos) return -1;
  const std::string stem = plain_name(key.substr(0, digits));
  if (!stem.empty() && stem != "layer" && stem != "layers" && stem != "l" && stem != "blk") {
    return -1;
  }
  return parse_integer<std::int64_t>(key.substr(digits)).value_or(-1);
}

bool holds_numbers(const JsonElement& value) {
  const auto numbers = value_of_json(value);
  return numbers && numbers->numeric;
}

}  // namespace

void JsonRows::visit_item(const JsonElement& item, const std::string& file, int line) {
  file_ = file;
  line_ = line;
  if (!visit_root_layers(item)) visit_value(item, 0);
}

bool JsonRows::makes_row(std::string_view key, const JsonElement& value) const {
  if (!places_.fields().makes_row(key)) return false;
  if (value.is_object() || value.is_null() || value.is_bool()) return false;
  const TableFact fact = table_fact(key);
  const auto numbers = value_of_json(value);
  return numbers && numbers->numeric && (fact == TableFact::none || numbers->lists > 0);
}

void JsonRows::visit_value(const JsonElement& value, int depth) {
  if (depth > most_depth) return;
  simdjson::dom::object object;
  simdjson::dom::array items;
  if (value.get(object) == simdjson::SUCCESS) return visit_object(object, depth);
  if (value.get(items) != simdjson::SUCCESS) return;
  for (const JsonElement item : items) {
    if (!item.is_object() && !item.is_array()) return;
    visit_value(item, depth + 1);
  }
}

void JsonRows::visit_object(const simdjson::dom::object& object, int depth) {
  const std::size_t before = scope_.size();
  bool row = false;
  for (const auto& [key, value] : object) {
    if (value.is_object() || value.is_null()) continue;
    if (value.is_array() && !holds_numbers(value)) continue;
    scope_.push_back({std::string(key), value});
    row = row || makes_row(key, value);
  }
  if (row) {
    emit(before);
  } else if (!visit_layer_fields(object)) {
    for (std::size_t i = before; i < scope_.size(); ++i) {
      note_fact(scope_[i].name, json_number(scope_[i].value, 1 << 20), facts_);
    }
    for (const auto& [key, value] : object) {
      if (!visit_layers(value, depth)) visit_value(value, depth + 1);
    }
  }
  scope_.resize(before);
}

/// Emits the layers of {"token": 0, "layer_3": [ids], "layer_4": ...}. Returns false for any other
/// object.
bool JsonRows::visit_layer_fields(const simdjson::dom::object& object) {
  bool any = false;
  for (const auto& [key, its] : object) {
    if (std::isdigit(static_cast<unsigned char>(key.empty() ? '0' : key.front())) != 0) continue;
    if (layer_of_key(key) < 0 || !its.is_array() || !holds_numbers(its)) continue;
    any = true;
    emit_layer(layer_of_key(key), its);
  }
  return any;
}

/// Emits the layers of a file that is {"3": [ids], "model.layers.4.mlp": ...}. Returns false for
/// any other object.
bool JsonRows::visit_root_layers(const JsonElement& item) {
  simdjson::dom::object layers;
  if (item.get(layers) != simdjson::SUCCESS) return false;
  const bool of_lists = std::all_of(layers.begin(), layers.end(), [](const auto& field) {
    return field.value.is_array() && holds_numbers(field.value);
  });
  return of_lists && visit_layers(item, 0);
}

void JsonRows::emit_layer(std::int64_t layer, const JsonElement& ids) {
  keyed_layer_ = layer;
  scope_.push_back({places_.fields().name_of(TableRole::experts), ids});
  emit(scope_.size() - 1);
  scope_.pop_back();
  keyed_layer_.reset();
}

/// Emits the layers of {"3": [ids], "4": ...}. Returns false for any other object.
bool JsonRows::visit_layers(const JsonElement& value, int depth) {
  simdjson::dom::object layers;
  if (value.get(layers) != simdjson::SUCCESS || layers.size() == 0) return false;
  for (const auto& [key, its] : layers) {
    if (layer_of_key(key) < 0) return false;
  }
  for (const auto& [key, its] : layers) {
    if (its.is_array() && holds_numbers(its)) {
      emit_layer(layer_of_key(key), its);
      continue;
    }
    keyed_layer_ = layer_of_key(key);
    visit_value(its, depth + 1);
    keyed_layer_.reset();
  }
  return true;
}

/// Emits a row whose own fields are those from `own` on, the others of objects around.
void JsonRows::emit(std::size_t own) {
  TableRow row{file_, line_};
  std::vector<std::string> names;
  for (auto field = scope_.begin(); field != scope_.end(); ++field) {
    // If an inner object has a field of the same name, only the inner field counts.
    const bool shadowed = std::any_of(
        field + 1, scope_.end(), [&](const Field& inner) { return inner.name == field->name; });
    // How many tokens an object has is nothing of an expert in it.
    const bool of_others = field - scope_.begin() < static_cast<std::ptrdiff_t>(own) &&
                           places_.fields().counts_an_expert(field->name);
    names.push_back(shadowed || of_others ? "" : field->name);
  }
  const auto& places = places_.find(names, fmt::format("{}:{}", file_, line_));
  const auto value_of = [&](std::size_t field) { return value_of_json(scope_[field].value); };
  fill_row(row, places, places_.fields(), names, value_of);
  note_unused(places, names, own, value_of, facts_);
  if (!row.layer) row.layer = keyed_layer_;
  ++rows_;
  use_(row);
}

}  // namespace moesim
