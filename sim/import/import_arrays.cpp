// SPDX-License-Identifier: Apache-2.0
#include "sim/import/import_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/lower_case.h"
#include "sim/base/most.h"
#include "sim/base/read_number.h"
#include "sim/import/file_content.h"
#include "sim/import/input_hash.h"
#include "sim/import/marked_experts.h"
#include "sim/import/zip.h"

namespace moesim {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

/// Letters before a place of a name, without what separates them: "layer" in "moe.layer_3".
std::string word_before(std::string_view name, std::size_t end) {
  while (end > 0 && std::string_view("._-/").find(name[end - 1]) != std::string_view::npos) --end;
  std::size_t first = end;
  while (first > 0 && std::isalpha(static_cast<unsigned char>(name[first - 1])) != 0) --first;
  return lower_case(name.substr(first, end - first));
}

/// A name's number of a layer, and the rest of the name.
struct NumberedName {
  std::string stem;
  int number = 0;
  bool counted_by_numpy = false;
};

std::optional<NumberedName> numbered(std::string_view name) {
  static constexpr std::array<std::string_view, 10> words = {
      "layer", "layers", "moelayer", "l", "blk", "block", "blocks", "h", "arr", ""};
  for (std::size_t at = name.find_first_of(decimal_digits); at != std::string_view::npos;) {
    const std::size_t end = std::min(name.find_first_not_of(decimal_digits, at), name.size());
    const std::string word = word_before(name, at);
    const auto number = parse_integer<std::int64_t>(name.substr(at, end - at));
    if (std::ranges::find(words, word) != words.end() && number && *number <= max_layer_number) {
      return NumberedName{std::string(name.substr(0, at)) + '#' + std::string(name.substr(end)),
                          static_cast<int>(*number), word == "arr"};
    }
    at = name.find_first_of(decimal_digits, end);
  }
  return std::nullopt;
}

bool says_any_of(const std::string& stem, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return stem.find(word) != std::string::npos; });
}

bool can_be(ArrayRole role, const std::string& name) {
  const std::string stem = lower_case(name);
  const bool weights = says_any_of(stem, {"weight", "prob", "score", "gate"});
  if (says_any_of(stem, {"logit", "length", "len", "count", "load", "hidden", "bias", "mask"})) {
    return false;
  }
  return role == ArrayRole::weights ? weights : !weights;
}

bool is_named_ids(const std::string& stem) {
  return says_any_of(lower_case(stem),
                     {"id", "expert", "indic", "topk", "top_k", "rout", "select", "choice"});
}

namespace fs = std::filesystem;

/// An array that may be read: a .npy file, or a member of an archive.
struct Source {
  std::string input;
  std::shared_ptr<const ZipArchive> archive;  // null for a .npy file
  ZipArchive::Member member;

  NpyArray read() const {
    if (!archive) return NpyArray::open(input);
    return NpyArray::parse(archive->read(member), input + "/" + member.name);
  }
};

/// By name. Only arrays that are needed are read: recorders also save texts and other objects that
/// are not arrays of numbers.
using Sources = std::map<std::string, Source>;

Sources find_sources(const std::vector<std::string>& inputs) {
  Sources sources;
  const auto add = [&](const std::string& name, Source source) {
    if (!sources.emplace(name, std::move(source)).second) {
      throw Error(fmt::format("two arrays are named '{}'", name));
    }
  };
  for (const auto& input : input_files(inputs)) {
    if (fs::path(input).extension() == ".npy") {
      add(fs::path(input).stem().string(), {input, nullptr, {}});
      continue;
    }
    const auto archive = std::make_shared<const ZipArchive>(input);
    for (const auto& member : archive->members()) {
      if (member.name.ends_with(".npy")) {
        add(member.name.substr(0, member.name.size() - 4), {input, archive, member});
      }
    }
  }
  return sources;
}

std::vector<std::string> names_of(const Sources& sources) {
  std::vector<std::string> names;
  for (const auto& [name, source] : sources) names.push_back(name);
  return names;
}

/// The array called `name`, else the only one whose name is in `usual`.
const Source* find(const Sources& sources, const std::string& name, const std::string& role,
                   const std::vector<std::string>& usual, const std::string& file, bool required) {
  const auto names = names_of(sources);
  if (!name.empty()) {
    const auto at = sources.find(name);
    if (at == sources.end()) {
      throw Error(fmt::format("there is no array '{}' for the {}", name, role),
                  did_you_mean(name, names));
    }
    return &at->second;
  }
  const Source* found = nullptr;
  for (const auto& candidate : usual) {
    if (const auto at = sources.find(candidate); at != sources.end()) {
      if (found != nullptr) {
        throw error_in(file, fmt::format("several arrays could be the {}", role),
                       fmt::format("name one of: {}", fmt::join(names, ", ")));
      }
      found = &at->second;
    }
  }
  if (found == nullptr && required) {
    throw error_in(file, fmt::format("no array is named like {}", role),
                   fmt::format("name one of: {}", fmt::join(names, ", ")));
  }
  return found;
}

const std::vector<std::string> usual_ids = {"ids", "expert_ids", "topk_ids", "indices",
                                            "selected_experts"};
const std::vector<std::string> usual_weights = {"weights", "gate_weights", "topk_weights",
                                                "gate_w1e4"};

/// Finds one array of ids per layer, if no array holds the ids of all layers.
std::optional<LayerArrays> find_layers(const Sources& sources, const ImportOptions& options) {
  const bool usual = std::ranges::any_of(
      usual_ids, [&](const std::string& name) { return sources.contains(name); });
  if (sources.size() == 1 || usual || !options.ids.empty()) return std::nullopt;
  const auto& known = options.known_layers();
  return find_layer_arrays(names_of(sources), ArrayRole::ids, known.size());
}

void read_layers(const Sources& sources, const LayerArrays& layers, const ImportOptions& options,
                 ImportArrays& arrays) {
  arrays.per_layer = true;
  arrays.layers = layers.layers;
  for (const std::string& name : layers.names) arrays.ids.push_back(sources.at(name).read());
  if (!options.weights.empty()) {
    throw Error("--weights names one array, but ids have one per layer",
                "leave it out: weights with layer numbers in their names are found");
  }
  const auto weights =
      find_layer_arrays(names_of(sources), ArrayRole::weights, layers.names.size());
  if (!weights || weights->layers != layers.layers) return;
  for (const std::string& name : weights->names) {
    arrays.weights.push_back(sources.at(name).read());
  }
}

}  // namespace

std::optional<LayerArrays> find_layer_arrays(const std::vector<std::string>& names, ArrayRole role,
                                             std::size_t expected) {
  std::map<std::string, std::map<int, std::string>> sets;  // by stem
  bool by_numpy = false;
  for (const std::string& name : names) {
    const auto its = numbered(name);
    if (!its || !can_be(role, its->stem)) continue;
    if (!sets[its->stem].emplace(its->number, name).second) return std::nullopt;
    by_numpy = by_numpy || its->counted_by_numpy;
  }
  const bool named =
      std::ranges::any_of(sets, [](const auto& set) { return is_named_ids(set.first); });
  if (role == ArrayRole::ids && named) {
    std::erase_if(sets, [](const auto& set) { return !is_named_ids(set.first); });
  }
  if (sets.size() != 1) return std::nullopt;
  const auto& set = sets.begin()->second;
  if (by_numpy && (expected < 2 || set.size() != expected)) return std::nullopt;
  LayerArrays found;
  for (const auto& [number, name] : set) {
    found.names.push_back(name);
    if (!by_numpy) found.layers.push_back(number);
  }
  return found;
}

ImportArrays read_import_arrays(const ImportOptions& options) {
  const Sources sources = find_sources(options.inputs);
  const std::string& file = options.inputs.front();
  if (sources.empty()) {
    throw error_in(file, content_of(file) + ", without arrays of NumPy",
                   "kind 'router-lists' reads tensors of torch.save by layer");
  }
  ImportArrays arrays;
  if (const auto layers = find_layers(sources, options)) {
    read_layers(sources, *layers, options, arrays);
  } else {
    const bool only = sources.size() == 1 && options.ids.empty();
    arrays.ids = {
        (only ? &sources.begin()->second : find(sources, options.ids, "ids", usual_ids, file, true))
            ->read()};
    const Source* weights = find(sources, options.weights, "weights", usual_weights, file, false);
    if (weights != nullptr) arrays.weights = {weights->read()};
  }
  const Source* lengths = find(sources, options.lengths, "sequence lengths",
                               {"seq_len", "seq_lens", "sequence_lengths", "lengths"}, file, false);
  if (lengths != nullptr) arrays.lengths = lengths->read();
  for (NpyArray& ids : arrays.ids) ids = without_marks(ids, options.experts, options.top_k);
  for (std::size_t i = 0; i < arrays.weights.size(); ++i) {
    const NpyArray& weights = arrays.weights[i];
    if (weights.shape() == arrays.ids[i].shape()) continue;
    throw error_in(weights.file(),
                   fmt::format("has shape {} but the ids have {}", shape_text(weights.shape()),
                               shape_text(arrays.ids[i].shape())));
  }
  return arrays;
}

}  // namespace moesim
