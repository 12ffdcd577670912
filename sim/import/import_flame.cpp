// SPDX-License-Identifier: Apache-2.0
// The data set CMU-FLAME/FLAME-MoE-Traces: of a checkpoint's folder iter_<n>, layer_<LL>.parquet
// with the columns `indices` and `scores`, lists of one length; row i of all layers is one token.
// The capture scripts write actives/<model>/<run>/<iteration>/<layer>/<microbatch>-<rank>.pt
// before, each (scores, indices).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/import/file_content.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/parquet/parquet_column.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Which microbatch of which rank, by the name of the file; numbered alike in all layers.
struct CaptureName {
  std::int64_t batch = -1, rank = -1;
  std::string name;
  auto operator<=>(const CaptureName&) const = default;
};

using LayerFiles = std::map<CaptureName, std::string>;

CaptureName capture_name(const fs::path& path) {
  const std::string stem = path.stem().string();
  const auto dash = stem.find('-');
  CaptureName name{-1, -1, stem};
  if (dash == std::string::npos) return name;
  name.batch = number_of_name(std::string_view(stem).substr(0, dash));
  name.rank = number_of_name(std::string_view(stem).substr(dash + 1));
  if (name.batch < 0 || name.rank < 0) name.batch = name.rank = -1;
  return name;
}

LayerFiles files_of_layer(const fs::path& folder) {
  LayerFiles files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path()) || entry.path().extension() != ".pt" ||
        !is_regular_file(entry.path().string()))
      continue;
    files.emplace(capture_name(entry.path()), entry.path().string());
  }
  return files;
}

/// The folders of layers in an iteration's, by their number.
std::map<std::int64_t, LayerFiles> find_layers(const std::vector<std::string>& inputs) {
  std::map<std::int64_t, LayerFiles> layers;
  for (const std::string& input : inputs) {
    if (!is_folder(input)) continue;
    for (const auto& entry : fs::directory_iterator(input)) {
      const std::int64_t number = number_of_name(entry.path().filename().string());
      if (number < 0 || number > max_layer_number || !is_folder(entry.path().string())) continue;
      auto files = files_of_layer(entry.path());
      if (files.empty()) continue;
      layers[number].merge(files);
      if (!files.empty()) {
        throw error_in(files.begin()->second, fmt::format("is a second file of layer {}", number),
                       "import one iteration at a time");
      }
    }
  }
  return layers;
}

struct Capture {
  NpyArray ids, scores;
};

Capture read_capture(const std::string& path) {
  const TorchFile file(path);
  std::vector<NpyArray> tensors;
  const PickleValue* scores = pickle_get(file.root(), "scores");
  const PickleValue* indices = pickle_get(file.root(), "indices");
  if (scores != nullptr && indices != nullptr) {
    tensors = {file.load(*scores, "scores"), file.load(*indices, "indices")};
  } else if (file.root().is_list()) {
    for (const PickleValue& item : file.items(file.root(), "pair")) {
      tensors.push_back(file.load(item, fmt::format("[{}]", tensors.size())));
    }
  }
  const bool pair = tensors.size() == 2 && tensors[0].shape() == tensors[1].shape() &&
                    tensors[0].shape().size() == 2 &&
                    tensors[0].type().is_integer() != tensors[1].type().is_integer();
  if (!pair) {
    std::vector<std::string> found;
    for (const NpyArray& tensor : tensors) found.push_back(tensor.describe());
    throw error_in(path, fmt::format("holds {}, not scores and indices [token][choice]",
                                     found.empty() ? file.names()
                                                   : fmt::format("{}", fmt::join(found, ", "))));
  }
  const std::size_t ids = tensors[0].type().is_integer() ? 0 : 1;
  return {tensors[ids], tensors[1 - ids]};
}

/// The same microbatch in all layers.
void add_capture_of(const CaptureName& name, const std::map<std::int64_t, LayerFiles>& layers,
                    int counted_from, ImportSink& sink) {
  std::vector<NpyArray> ids, scores;
  RoutedPass pass{layers.begin()->second.at(name),
                  ChoiceTable({NpyArray::of(std::vector<std::int32_t>{}, {0, 1}, "")}),
                  {}};
  for (const auto& [number, files] : layers) {
    const auto file = files.find(name);
    if (file == files.end()) {
      throw error_in(pass.where, fmt::format("layer {} has no file of this name", number),
                     "the capture is not complete");
    }
    Capture capture = read_capture(file->second);
    ids.push_back(std::move(capture.ids));
    scores.push_back(std::move(capture.scores));
    pass.layers.push_back(static_cast<int>(number) - counted_from);
  }
  pass.ids = ChoiceTable(std::move(ids));
  pass.weights = ChoiceTable(std::move(scores));
  pass.lengths = {static_cast<std::int32_t>(pass.ids.tokens())};
  if (name.batch >= 0) {
    pass.step = name.batch;
    if (name.rank < 1 << 20) pass.source_rank = static_cast<int>(name.rank);
  }
  pass.phase = Phase::training;
  sink.add_microbatch(pass);
}

/// Hands over the captures of one iteration. The inputs are its folder. Returns false if they hold
/// no captures; throws Error for captures that do not fit each other, as of two iterations.
bool add_flame_captures(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  const auto layers = find_layers(options.inputs);
  if (layers.empty()) return false;
  const int counted_from = options.numbering == "from-0" ? 0 : 1;
  if (layers.begin()->first < counted_from) {
    throw error_in(options.inputs.front(), "has a folder of layer 0, and folders count from 1",
                   "--numbering from-0 says otherwise");
  }
  const LayerFiles& first = layers.begin()->second;
  double done = 0;
  for (const auto& [name, path] : first) {
    sink.progress(done++ / static_cast<double>(first.size()));
    add_capture_of(name, layers, counted_from, sink);
  }
  std::vector<std::int64_t> numbers, in_model;
  for (const auto& [number, files] : layers) {
    numbers.push_back(number);
    in_model.push_back(number - counted_from);
  }
  if (!options.numbering.empty()) return true;
  sink.warn({Severity::warning, options.inputs.front(), 0, 0,
             fmt::format("its layers {} are counted from {}: layers {} of the model",
                         fmt::join(numbers, ", "), counted_from, fmt::join(in_model, ", ")),
             "", "--numbering from-0 or from-1 says how"});
  return true;
}

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
