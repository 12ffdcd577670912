// SPDX-License-Identifier: Apache-2.0
// ESFT text (github.com/deepseek-ai/ESFT, scripts/expert): one file per layer, one line per
// sequence, ids separated by tabs, two tabs, weights separated by tabs; top-k entries a token.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <type_traits>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/line_file.h"
#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/base/text.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

struct LayerFile {
  int layer = 0;
  std::string path;
};

/// The layer in `expert_weights_<layer>.txt` or `.txt.gz`, whatever comes before it.
std::optional<int> layer_of(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  if (!name.ends_with(".txt")) return std::nullopt;
  name.remove_suffix(4);
  constexpr std::string_view stem = "expert_weights_";
  const auto at = name.rfind(stem);
  if (at == std::string_view::npos) return std::nullopt;
  const int layer = parse_integer<int>(name.substr(at + stem.size())).value_or(-1);
  if (layer < 0 || layer > max_layer_number) return std::nullopt;
  return layer;
}

std::vector<LayerFile> find_files(const std::vector<std::string>& inputs) {
  std::vector<LayerFile> files;
  for (const auto& input : inputs) {
    if (!is_folder(input)) {
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
      if (is_hidden(entry.path())) continue;
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

std::from_chars_result read_one(std::string_view word, int& value) {
  return std::from_chars(word.data(), word.data() + word.size(), value);
}
std::from_chars_result read_one(std::string_view word, float& value) {
  return read_number(word.data(), word.data() + word.size(), value);
}

template <class T>
void parse_list(std::string_view list, std::vector<T>& out, const std::string& file, int line) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find('\t'));
    T value{};
    const auto [end, status] = read_one(word, value);
    if (status != std::errc() || end != word.data() + word.size()) {
      throw error_in(file, fmt::format("'{}' is not a number", word), "", line);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (!is_weight(value)) {
        throw error_in(file, fmt::format("'{}' is not a weight", word), "", line);
      }
    }
    out.push_back(value);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
}

/// One layer's file, sequence by sequence.
class EsftLines {
 public:
  explicit EsftLines(LayerFile file) : file_(std::move(file)), lines_(file_.path) {}

  const LayerFile& file() const { return file_; }
  double done() const { return lines_.done(); }
  std::int64_t tokens() const { return tokens_; }
  int sequences() const { return sequences_; }
  NpyArray take_ids(std::int64_t top_k) {
    return NpyArray::of(std::move(ids_), {tokens_, top_k}, file_.path);
  }
  NpyArray take_weights(std::int64_t top_k) {
    return NpyArray::of(std::move(weights_), {tokens_, top_k}, file_.path);
  }

  /// Reads the next sequence; false at the end.
  bool next(int top_k, int experts) {
    if (!lines_.next(text_)) {
      if (sequences_ == 0) throw error_in(file_.path, "is empty");
      return false;
    }
    check_text(text_, file_.path, lines_.line_number());
    std::string_view line = text_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t gap = line.find("\t\t");
    if (gap == std::string_view::npos) refuse("no two tabs between ids and weights");
    ids_.clear();
    weights_.clear();
    parse_list(line.substr(0, gap), ids_, file_.path, lines_.line_number());
    parse_list(line.substr(gap + 2), weights_, file_.path, lines_.line_number());
    for (const std::int32_t id : ids_) {
      if (id >= 0 && id < experts) continue;
      refuse(fmt::format("expert {} of a model with {} experts", id, experts));
    }
    if (ids_.size() != weights_.size()) {
      refuse(fmt::format("{} ids but {} weights", ids_.size(), weights_.size()));
    }
    if (ids_.size() % static_cast<std::size_t>(top_k) != 0) {
      refuse(fmt::format("{} ids are not rows of {}", ids_.size(), top_k), "--top-k is K");
    }
    tokens_ = std::ssize(ids_) / top_k;
    ++sequences_;
    return true;
  }
  /// All sequences of the file.
  int count_sequences() {
    while (lines_.next(text_)) ++sequences_;
    return sequences_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = "") const {
    throw error_in(file_.path, what, hint, lines_.line_number());
  }

  LayerFile file_;
  LineFile lines_;
  std::string text_;
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
  std::int64_t tokens_ = 0;
  int sequences_ = 0;
};

using EsftLayers = std::vector<std::unique_ptr<EsftLines>>;

/// Reads the next sequence of every layer; false at the end.
bool next_sequence(EsftLayers& layers, const ImportSink& sink) {
  EsftLines& first = *layers.front();
  const int top_k = sink.options().top_k;
  const bool more = first.next(top_k, sink.experts());
  for (auto& layer : layers) {
    if (layer == layers.front()) continue;
    if (layer->next(top_k, sink.experts()) != more) {
      const int its = layer->count_sequences(), due = first.count_sequences();
      throw error_in(layer->file().path,
                     fmt::format("layer {} has {} but layer {} has {}", layer->file().layer,
                                 counted(its, "sequence"), first.file().layer, due));
    }
    if (more && layer->tokens() != first.tokens()) {
      throw error_in(layer->file().path,
                     fmt::format("layer {} has {} in sequence {} but layer {} has {}",
                                 layer->file().layer, counted(layer->tokens(), "token"),
                                 first.sequences() - 1, first.file().layer, first.tokens()),
                     "", first.sequences());
    }
  }
  return more;
}

RoutedPass sequence_of(EsftLayers& layers, const ImportOptions& options) {
  std::vector<NpyArray> ids, weights;
  std::vector<int> numbers;
  for (auto& layer : layers) {
    ids.push_back(layer->take_ids(options.top_k));
    weights.push_back(layer->take_weights(options.top_k));
    numbers.push_back(layer->file().layer);
  }
  RoutedPass pass{options.inputs.front(), ChoiceTable(std::move(ids)), {}};
  pass.lengths = {static_cast<std::int32_t>(pass.ids.tokens())};
  pass.layers = numbers;
  pass.weights = ChoiceTable(std::move(weights));
  pass.phase = Phase::prefill;
  pass.warm_up_first = false;
  return pass;
}

}  // namespace

void import_esft(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  sink.experts();
  if (options.top_k < 1) throw Error("ESFT files do not say top-k", "give --model or --top-k");
  if (!options.layers.empty()) throw Error("ESFT file names say the layers", "drop --layers");
  EsftLayers layers;
  for (const LayerFile& file : find_files(options.inputs)) {
    layers.push_back(std::make_unique<EsftLines>(file));
  }
  while (next_sequence(layers, sink)) {
    sink.progress(layers.front()->done());
    sink.add(sequence_of(layers, options));
  }
}

}  // namespace moesim
