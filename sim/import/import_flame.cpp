// SPDX-License-Identifier: Apache-2.0
// The data set CMU-FLAME/FLAME-MoE-Traces: of a checkpoint's folder iter_<n>, layer_<LL>.parquet
// with the columns `indices` and `scores`, lists of one length; row i of all layers is one token.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/import/file_content.h"
#include "sim/import/flame_captures.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/parquet/parquet_column.h"

namespace moesim {
namespace {

/// The sequences that these models were trained on; the files do not say where they begin.
constexpr std::int64_t flame_sequence = 2048;

/// Rows that are read at a time.
constexpr std::int64_t flame_block = 4 * flame_sequence;

/// The number in layer_<LL>.parquet, -1 for other names.
int flame_layer(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  if (!name.starts_with("layer_")) return -1;
  const int layer = parse_integer<int>(std::string_view(name).substr(6)).value_or(-1);
  return layer <= max_layer_number ? layer : -1;
}

struct FlameLayer {
  ParquetFile file;
  ParquetColumn ids;
  std::unique_ptr<ParquetColumn> scores;  // null if they are not kept

  explicit FlameLayer(const std::string& path) : file(path), ids(file, "indices") {
    if (file.has("scores")) scores = std::make_unique<ParquetColumn>(file, "scores");
  }
};

using FlameLayers = std::map<int, std::unique_ptr<FlameLayer>>;  // by the number in the name

FlameLayers open_layers(const std::vector<std::string>& inputs) {
  FlameLayers layers;
  for (const std::string& path : input_files(inputs)) {
    if (!path.ends_with(".parquet")) continue;
    const int layer = flame_layer(path);
    if (layer < 1) {
      throw error_in(path, "is not named layer_<number from 1>.parquet",
                     "the name is the only place that tells the layer");
    }
    auto& its = layers[layer];
    if (its) {
      throw error_in(path, fmt::format("is a second file of layer {}", layer),
                     "import one checkpoint (iter_<n>) at a time");
    }
    its = std::make_unique<FlameLayer>(path);
  }
  if (layers.empty()) {
    throw error_in(inputs.front(),
                   fmt::format("has neither layer_<number>.parquet nor folders of layers with .pt; "
                               "{}",
                               files_text(inputs)),
                   "give one checkpoint: iter_<n> of the data set, or actives/<model>/<run>/<n>");
  }
  const ParquetFile& first = layers.begin()->second->file;
  for (const auto& [layer, its] : layers) {
    if (its->file.rows() == first.rows()) continue;
    throw error_in(its->file.path(),
                   fmt::format("has {} but {} has {}", counted(its->file.rows(), "token"),
                               first.path(), first.rows()));
  }
  return layers;
}

/// The next tokens of all layers; none at the end.
RoutedPass next_tokens(FlameLayers& layers) {
  std::vector<NpyArray> ids, scores;
  std::vector<int> numbers;
  for (auto& [layer, its] : layers) {
    ids.push_back(its->ids.read(flame_block));
    numbers.push_back(layer - 1);  // names count from 1
    if (!its->scores) continue;
    scores.push_back(its->scores->read(flame_block));
    if (scores.back().shape() != ids.back().shape()) {
      throw error_in(scores.back().file(), fmt::format("has {} scores but {} ids",
                                                       scores.back().count(), ids.back().count()));
    }
  }
  const bool ended = ids.front().shape()[0] == 0;
  for (const NpyArray& of_layer : ids) {
    if ((of_layer.shape()[0] == 0) != ended) {
      throw error_in(of_layer.file(), "holds other tokens than it says");
    }
  }
  if (ended) ids = {NpyArray::of(std::vector<std::int32_t>{}, {0, 1}, "")};
  RoutedPass pass{layers.begin()->second->file.path(), ChoiceTable(std::move(ids)), {}};
  for (std::int64_t left = pass.ids.tokens(); left > 0; left -= flame_sequence) {
    pass.lengths.push_back(static_cast<std::int32_t>(std::min(left, flame_sequence)));
  }
  pass.layers = numbers;
  if (!ended && scores.size() == layers.size()) pass.weights = ChoiceTable(std::move(scores));
  pass.phase = Phase::training;
  pass.warm_up_first = false;
  return pass;
}

}  // namespace

void import_flame(ImportSink& sink) {
  sink.experts();
  if (add_flame_captures(sink)) return;
  FlameLayers layers = open_layers(sink.options().inputs);
  const FlameLayer& first = *layers.begin()->second;
  const auto rows = static_cast<double>(first.file.rows());
  std::int64_t tokens = 0;
  for (;;) {
    const RoutedPass pass = next_tokens(layers);
    if (pass.ids.tokens() == 0) break;
    tokens += pass.ids.tokens();
    sink.progress(static_cast<double>(tokens) / rows);
    sink.add(pass);
  }
  if (tokens != first.file.rows()) {
    throw error_in(first.file.path(), fmt::format("holds {} but says {}", counted(tokens, "token"),
                                                  first.file.rows()));
  }
  sink.warn({Severity::warning, sink.options().inputs.front(), 0, 0,
             fmt::format("does not say where sequences begin: tokens are taken as sequences of {}",
                         flame_sequence),
             "", "what the models were trained on"});
}

}  // namespace moesim
