// SPDX-License-Identifier: Apache-2.0
#include "sim/import/trtllm_files.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

std::optional<NpyType> safetensors_type(const std::string& name) {
  static const std::map<std::string, NpyType> types = {
      {"BOOL", {'u', 1}}, {"U8", {'u', 1}},  {"I8", {'i', 1}},  {"U16", {'u', 2}},
      {"I16", {'i', 2}},  {"U32", {'u', 4}}, {"I32", {'i', 4}}, {"U64", {'u', 8}},
      {"I64", {'i', 8}},  {"F16", {'f', 2}}, {"F32", {'f', 4}}, {"F64", {'f', 8}},
      {"BF16", {'b', 2}}};
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

/// {"dtype": "I64", "shape": [2, 3], "data_offsets": [0, 48]}
NpyArray read_tensor(const nlohmann::ordered_json& entry, const std::string& name,
                     std::span<const std::byte> data, const std::shared_ptr<const void>& memory) {
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> ends;
  std::optional<NpyType> type;
  try {
    type = safetensors_type(entry.at("dtype").get<std::string>());
    for (const auto& n : entry.at("shape")) {
      if (!n.is_number_unsigned()) throw error_in(name, "has a shape of no whole numbers");
      shape.push_back(n.get<std::int64_t>());
    }
    for (const auto& n : entry.at("data_offsets")) ends.push_back(n.get<std::uint64_t>());
  } catch (const nlohmann::json::exception&) {
    throw error_in(name, "lacks dtype, shape or data_offsets");
  }
  if (!type) throw error_in(name, "holds elements of an unsupported type");
  if (ends.size() != 2 || ends[0] > ends[1] || ends[1] > data.size()) {
    throw error_in(name, "lies beyond the end of the file", "the file is cut short or damaged");
  }
  return NpyArray::view(*type, std::move(shape), data.subspan(ends[0], ends[1] - ends[0]), memory,
                        name);
}

/// The digits at the start of `text`, which they leave; -1 without.
std::int64_t take_number(std::string_view& text) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The rank in the name of a file of this kind, -1 for any other.
int rank_of(std::string_view name, RankFileKind kind) {
  std::string_view ending = kind == RankFileKind::ids ? "_raw.safetensors" : ".safetensors";
  if (kind == RankFileKind::ids && name.starts_with("token_selected_experts_")) {
    name.remove_prefix(23);
    ending = ".safetensors";
  }
  if (!name.starts_with("rank")) return -1;
  name.remove_prefix(4);
  const std::int64_t rank = take_number(name);
  return name == ending && rank >= 0 && rank < 1 << 20 ? static_cast<int>(rank) : -1;
}

std::map<std::int64_t, std::map<int, NpyArray>> iterations_of(const Safetensors& file) {
  std::map<std::int64_t, std::map<int, NpyArray>> found;
  for (const auto& [name, tensor] : file.tensors()) {
    std::string_view text = name;
    const std::int64_t iteration = take_number(text);
    const bool parted = text.starts_with('_');
    if (parted) text.remove_prefix(1);
    const std::int64_t layer = parted ? take_number(text) : -1;
    if (iteration < 0 || layer < 0 || layer > max_layer_number || !text.empty()) {
      throw error_in(tensor.file(), "is not named <iteration>_<layer>");
    }
    found[iteration].emplace(static_cast<int>(layer), tensor);
  }
  if (found.empty()) throw error_in(file.path(), "holds no tensors");
  return found;
}

void read_meta(const std::string& path, ImportSink& sink) {
  const auto json = parse_json(read_file(path), {path});
  const auto number = [&](const char* key) {
    const auto at = json.is_object() ? json.find(key) : json.end();
    if (at == json.end() || !at->is_number_unsigned() || *at > std::uint64_t{max_experts}) {
      throw error_in(path, fmt::format("has no number '{}'", key));
    }
    return at->template get<int>();
  };
  sink.says_experts(number("num_experts"), path);
  sink.says_top_k(number("num_experts_per_token"), path);
}

/// Every iteration has the same layers, and iterations follow each other.
void check_whole(const RankTensors& ids, const RankTensors& first) {
  const auto& layers = first.iterations.begin()->second;
  std::optional<std::int64_t> before;
  for (const auto& [iteration, its_layers] : ids.iterations) {
    if (before && iteration != *before + 1) {
      throw error_in(ids.file.path(), fmt::format("lacks iteration {}: {} follows {}", *before + 1,
                                                  iteration, *before));
    }
    before = iteration;
    for (const auto& [layer, tensor] : layers) {
      if (its_layers.contains(layer)) continue;
      throw error_in(ids.file.path(),
                     fmt::format("lacks layer {} of iteration {}", layer, iteration));
    }
    if (its_layers.size() != layers.size()) {
      throw error_in(ids.file.path(),
                     fmt::format("has {} in iteration {} but {} in the first",
                                 counted(its_layers.size(), "layer"), iteration, layers.size()));
    }
    if (!first.iterations.contains(iteration)) {
      throw error_in(ids.file.path(),
                     fmt::format("has iteration {}, which {} lacks", iteration, first.file.path()));
    }
  }
}

}  // namespace

Safetensors::Safetensors(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  const auto bytes = file_->bytes();
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  if (bytes.size() < sizeof(length) || length > bytes.size() - sizeof(length)) {
    throw error_in(path, "is not a safetensors file: its header is cut short");
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(length),
                                length);
  const auto json = parse_json(header, {path});
  if (!json.is_object())
    throw error_in(path, "is not a safetensors file: its header is not an object");
  const auto data = bytes.subspan(sizeof(length) + length);
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    tensors_.emplace(name, read_tensor(entry, path + "/" + name, data, file_));
  }
}

std::map<int, RankTensors> read_trtllm(ImportSink& sink, RankFileKind kind) {
  std::map<int, RankTensors> ranks;
  for (const std::string& path : input_files(sink.options().inputs)) {
    const std::string name = std::filesystem::path(path).filename().string();
    if (name == "meta_info.json") read_meta(path, sink);
    const int rank = rank_of(name, kind);
    if (rank < 0) continue;
    Safetensors file(path);
    auto iterations = iterations_of(file);
    if (!ranks.try_emplace(rank, RankTensors{rank, std::move(file), std::move(iterations)})
             .second) {
      throw error_in(path, fmt::format("is a second file of rank {}", rank));
    }
  }
  if (ranks.empty()) {
    const bool ids = kind == RankFileKind::ids;
    throw error_in(sink.options().inputs.front(),
                   fmt::format("has no rank<r>{}.safetensors", ids ? "_raw" : ""),
                   ids ? "rank<r>.safetensors are counts, which kind trtllm-counts reads"
                       : "rank<r>_raw.safetensors are ids, which kind trtllm reads");
  }
  sink.experts();
  const RankTensors& first = ranks.begin()->second;
  for (const auto& [rank, tensors] : ranks) {
    check_whole(tensors, first);
    if (tensors.iterations.size() != first.iterations.size()) {
      throw error_in(tensors.file.path(),
                     fmt::format("has {} iterations but {} has {}", tensors.iterations.size(),
                                 first.file.path(), first.iterations.size()));
    }
  }
  return ranks;
}

}  // namespace moesim
