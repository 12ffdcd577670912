// SPDX-License-Identifier: Apache-2.0
#include "sim/import/flame_captures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/most.h"
#include "sim/import/file_content.h"
#include "sim/import/input_hash.h"
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

/// A folder of an iteration without captures is of a layer that was lost if the model has experts
/// there; without a model, if it is between layers with captures.
void refuse_empty(const std::map<std::int64_t, std::string>& empty,
                  const std::map<std::int64_t, LayerFiles>& layers, const ImportOptions& options) {
  const int counted_from = options.numbering == "from-0" ? 0 : 1;
  for (const auto& [number, folder] : empty) {
    const auto in_model = static_cast<int>(number) - counted_from;
    const bool is_moe = std::ranges::find(options.moe_layers, in_model) != options.moe_layers.end();
    const bool between = layers.begin()->first < number && number < layers.rbegin()->first;
    if (options.moe_layers.empty() ? !between : !is_moe) continue;
    throw error_in(folder, fmt::format("has no captures of layer {}", number),
                   "the capture is not complete; remove the folder if the layer is dense");
  }
}

/// The folders of layers in an iteration's, by their number.
std::map<std::int64_t, LayerFiles> find_layers(const ImportOptions& options) {
  std::map<std::int64_t, LayerFiles> layers;
  std::map<std::int64_t, std::string> empty;
  for (const std::string& input : options.inputs) {
    if (!is_folder(input)) continue;
    for (const auto& entry : fs::directory_iterator(input)) {
      const std::int64_t number = number_of_name(entry.path().filename().string());
      if (number < 0 || number > max_layer_number || !is_folder(entry.path().string())) continue;
      auto files = files_of_layer(entry.path());
      if (files.empty()) {
        empty.emplace(number, entry.path().string());
        continue;
      }
      layers[number].merge(files);
      if (!files.empty()) {
        throw error_in(files.begin()->second, fmt::format("is a second file of layer {}", number),
                       "import one iteration at a time");
      }
    }
  }
  std::erase_if(empty, [&](const auto& folder) { return layers.contains(folder.first); });
  if (!layers.empty()) refuse_empty(empty, layers, options);
  return layers;
}

/// The microbatches of all layers, each with a file of it.
LayerFiles captures_of(const std::map<std::int64_t, LayerFiles>& layers) {
  LayerFiles captures;
  for (const auto& [number, files] : layers) captures.insert(files.begin(), files.end());
  return captures;
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

/// The same microbatch in all layers; `path` is its file of some layer.
void add_capture_of(const CaptureName& name, const std::string& path,
                    const std::map<std::int64_t, LayerFiles>& layers, int counted_from,
                    ImportSink& sink) {
  std::vector<NpyArray> ids, scores;
  RoutedPass pass{path, ChoiceTable({NpyArray::of(std::vector<std::int32_t>{}, {0, 1}, "")}), {}};
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

}  // namespace

bool add_flame_captures(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  const auto layers = find_layers(options);
  if (layers.empty()) return false;
  const int counted_from = options.numbering == "from-0" ? 0 : 1;
  if (layers.begin()->first < counted_from) {
    throw error_in(options.inputs.front(), "has a folder of layer 0, and folders count from 1",
                   "--numbering from-0 says otherwise");
  }
  const LayerFiles captures = captures_of(layers);
  double done = 0;
  for (const auto& [name, path] : captures) {
    sink.progress(done++ / static_cast<double>(captures.size()));
    add_capture_of(name, path, layers, counted_from, sink);
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

}  // namespace moesim
