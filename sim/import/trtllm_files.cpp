// SPDX-License-Identifier: Apache-2.0
#include "sim/import/trtllm_files.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/base/counted.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

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
