// SPDX-License-Identifier: Apache-2.0
// ESFT text (github.com/deepseek-ai/ESFT, scripts/expert): one file per layer, one line per
// sequence, ids separated by tabs, two tabs, weights separated by tabs; top-k entries a token.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "sim/base/gzip.h"
#include "sim/base/most.h"
#include "sim/base/text.h"
#include "sim/trace/import/formats.h"
#include "sim/trace/import/import_sink.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

struct LayerFile {
  int layer = 0;
  std::string path;
};

/// The layer in `expert_weights_<layer>.txt` or `.txt.gz`, whatever stands before it.
std::optional<int> layer_of(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  if (!name.ends_with(".txt")) return std::nullopt;
  name.remove_suffix(4);
  constexpr std::string_view stem = "expert_weights_";
  const auto at = name.rfind(stem);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + stem.size());
  int layer = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  const bool whole = status == std::errc() && end == digits.data() + digits.size();
  if (!whole || layer < 0 || layer > max_layer_number) return std::nullopt;
  return layer;
}

std::vector<LayerFile> find_files(const std::vector<std::string>& inputs) {
  std::vector<LayerFile> files;
  for (const auto& input : inputs) {
    if (!fs::is_directory(input)) {
      const auto layer = layer_of(fs::path(input).filename().string());
      if (!layer) {
        throw error_in(input, "is not named expert_weights_<layer>.txt",
                       "the name is the only place that tells the layer");
      }
      files.push_back({*layer, input});
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(input)) {
      if (const auto layer = layer_of(entry.path().filename().string())) {
        files.push_back({*layer, entry.path().string()});
      }
    }
    if (files.size() == before) throw error_in(input, "has no expert_weights_<layer>.txt");
  }
  std::sort(files.begin(), files.end(), [](const LayerFile& a, const LayerFile& b) {
    return std::pair(a.layer, a.path) < std::pair(b.layer, b.path);
  });
  for (std::size_t i = 1; i < files.size(); ++i) {
    if (files[i].layer == files[i - 1].layer) {
      throw error_in(files[i].path, fmt::format("is a second file of layer {}", files[i].layer));
    }
  }
  return files;
}

/// Ids and weights of one layer, token-major.
struct Layer {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::vector<std::int32_t> sequence_lengths;
};

template <class T>
void parse_list(std::string_view list, std::vector<T>& out, const std::string& file, int line) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find('\t'));
    T value{};
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size() || word.empty()) {
      throw error_in(file, fmt::format("'{}' is not a number", word), "", line);
    }
    if (!std::isfinite(static_cast<double>(value))) {
      throw error_in(file, fmt::format("'{}' is no weight", word), "", line);
    }
    out.push_back(value);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
}

Layer read_layer(const std::string& file, int top_k, int experts) {
  const std::string text = read_text_or_gzip(file);
  check_text(text, file);
  Layer layer;
  int line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    ++line_number;
    const std::size_t gap = line.find("\t\t");
    if (gap == std::string_view::npos) {
      throw error_in(file, "no two tabs between ids and weights", "", line_number);
    }
    const std::size_t ids_before = layer.ids.size();
    parse_list(line.substr(0, gap), layer.ids, file, line_number);
    parse_list(line.substr(gap + 2), layer.weights, file, line_number);
    const std::size_t ids = layer.ids.size() - ids_before;
    for (std::size_t i = ids_before; i < layer.ids.size(); ++i) {
      if (layer.ids[i] < 0 || layer.ids[i] >= experts) {
        throw error_in(file,
                       fmt::format("expert {} of a model with {} experts", layer.ids[i], experts),
                       "", line_number);
      }
    }
    if (layer.ids.size() != layer.weights.size()) {
      throw error_in(file,
                     fmt::format("{} ids but {} weights", ids, layer.weights.size() - ids_before),
                     "", line_number);
    }
    if (ids == 0 || ids % static_cast<std::size_t>(top_k) != 0) {
      throw error_in(file, fmt::format("{} ids are not rows of {}", ids, top_k), "--top-k is K",
                     line_number);
    }
    layer.sequence_lengths.push_back(
        static_cast<std::int32_t>(ids / static_cast<std::size_t>(top_k)));
  }
  if (layer.ids.empty()) throw error_in(file, "is empty");
  return layer;
}

void check_alike(const Layer& layer, const Layer& first, const LayerFile& file,
                 const LayerFile& first_file) {
  if (layer.sequence_lengths == first.sequence_lengths) return;
  const auto& a = layer.sequence_lengths;
  const auto& b = first.sequence_lengths;
  if (a.size() != b.size()) {
    throw error_in(file.path, fmt::format("layer {} has {} sequences but layer {} has {}",
                                          file.layer, a.size(), first_file.layer, b.size()));
  }
  const auto at =
      static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  throw error_in(file.path,
                 fmt::format("layer {} has {} tokens in sequence {} but layer {} has {}",
                             file.layer, a[at], at, first_file.layer, b[at]),
                 "", static_cast<int>(at) + 1);
}

}  // namespace

void import_esft(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  const int experts = sink.experts();
  if (options.top_k < 1) throw Error("ESFT files do not say top-k", "give --model or --top-k");
  if (!options.layers.empty()) throw Error("ESFT file names say the layers", "drop --layers");
  const auto files = find_files(options.inputs);
  std::vector<std::int32_t> lengths;
  std::vector<NpyArray> ids, weights;
  std::vector<int> numbers;
  Layer first;
  for (std::size_t i = 0; i < files.size(); ++i) {
    sink.progress(static_cast<double>(i) / static_cast<double>(files.size()));
    const std::string& path = files[i].path;
    Layer layer = read_layer(path, options.top_k, experts);
    if (i == 0) first.sequence_lengths = layer.sequence_lengths;
    check_alike(layer, first, files[i], files[0]);
    const auto tokens = std::ssize(layer.ids) / options.top_k;
    ids.push_back(NpyArray::of(std::move(layer.ids), {tokens, options.top_k}, path));
    weights.push_back(NpyArray::of(std::move(layer.weights), {tokens, options.top_k}, path));
    numbers.push_back(files[i].layer);
  }
  RoutedPass pass{options.inputs.front(), ChoiceTable(std::move(ids)), first.sequence_lengths};
  pass.layers = numbers;
  pass.weights = ChoiceTable(std::move(weights));
  pass.phase = Phase::prefill;
  pass.warm_up_first = false;
  sink.add(pass);
}

}  // namespace moesim
