// SPDX-License-Identifier: Apache-2.0
// Selection traces of the data set core12345/MoE_expert_selection_trace: a JSON file per request, a
// list of {"<layer>": null or [[ids of a token] ...]}, the prefill first, then one token each.
#include <fmt/format.h>

#include <map>

#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/json_items.h"

namespace moesim {
namespace {

int layer_number(std::string_view key, const std::string& where) {
  const int layer = parse_integer<int>(key).value_or(-1);
  if (layer >= 0 && layer <= max_layer_number) return layer;
  throw error_in(where, fmt::format("'{}' is not a layer number", key.substr(0, 40)));
}

/// The routes of one element, [token][choice] by layer; dense layers have none.
std::map<int, NpyArray> element_of(const JsonElement& element, const std::string& where) {
  simdjson::dom::object of_layers;
  if (element.get(of_layers) != simdjson::SUCCESS) {
    throw error_in(where, "is not an object of layers");
  }
  std::map<int, NpyArray> layers;
  for (const auto& [key, rows] : of_layers) {
    const int layer = layer_number(key, where);
    if (rows.is_null()) continue;
    auto routes = array_of_lists(rows, 2, fmt::format("{}, layer {}", where, layer));
    if (!layers.emplace(layer, std::move(routes)).second) {
      throw error_in(where, fmt::format("has layer {} twice", layer));
    }
  }
  if (layers.empty()) throw error_in(where, "has no layer with experts");
  return layers;
}

void append(const NpyArray& from, std::vector<std::int32_t>& to) {
  for (std::int64_t i = 0; i < from.count(); ++i) {
    to.push_back(static_cast<std::int32_t>(from.integer(i)));
  }
}

void add_file(const std::string& path, ImportSink& sink) {
  JsonItems elements(path);
  std::map<int, std::vector<std::int32_t>> ids;
  std::int64_t tokens = 0, top_k = 0;
  while (elements.next()) {
    const std::int64_t i = elements.number();
    const std::string where = fmt::format("{}, element {}", path, i);
    const auto layers = element_of(elements.item(), where);
    const auto& shape = layers.begin()->second.shape();
    if (i == 0) top_k = shape[1];
    for (const auto& [layer, rows] : layers) {
      if (rows.shape() != shape || shape[1] != top_k) {
        throw error_in(
            where, fmt::format("layer {} has {} but the first has {} choices of {} tokens", layer,
                               shape_text(rows.shape()), top_k, shape[0]));
      }
      if (i > 0 && !ids.contains(layer)) {
        throw error_in(where, fmt::format("has layer {}, which the prefill has not", layer));
      }
      append(rows, ids[layer]);
    }
    if (layers.size() != ids.size()) throw error_in(where, "lacks layers of the prefill");
    tokens += shape[0];
  }
  if (ids.empty()) throw error_in(path, "is not a list of a prefill and steps");
  std::vector<NpyArray> arrays;
  std::vector<int> numbers;
  for (auto& [layer, values] : ids) {
    arrays.push_back(NpyArray::of(std::move(values), {tokens, top_k}, path));
    numbers.push_back(layer);
  }
  RoutedPass pass{path, ChoiceTable(std::move(arrays)), {static_cast<std::int32_t>(tokens)}};
  pass.layers = numbers;
  pass.phase = Phase::mixed;
  sink.add(pass);
}

}  // namespace

void import_core12345(ImportSink& sink) {
  sink.experts();
  const auto files = input_files(sink.options().inputs);
  for (std::size_t i = 0; i < files.size(); ++i) {
    sink.progress(static_cast<double>(i) / static_cast<double>(files.size()));
    add_file(files[i], sink);
  }
}

}  // namespace moesim
