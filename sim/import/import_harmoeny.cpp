// SPDX-License-Identifier: Apache-2.0
// HarMoEny's loads (sacs-epfl/HarMoEny): data.json, and <rank>/moe_layer-<i>.csv with a line per
// iteration whose column "expert distribution" counts the choices of that rank's tokens.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/line_file.h"
#include "sim/base/most.h"
#include "sim/import/counts.h"
#include "sim/import/formats.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

using IterationCounts = std::map<std::int64_t, std::vector<std::int64_t>>;  // by iteration
using LayerCounts = std::map<int, IterationCounts>;                         // by MoE layer

/// "[12, 166, 134]".
std::vector<std::int64_t> counts_in(std::string_view list, const LineFile& file) {
  std::vector<std::int64_t> counts;
  const auto refuse = [&] {
    throw error_in(file.path(), "has no list of counts in its last column", "", file.line_number());
  };
  if (!list.starts_with('[') || !list.ends_with(']')) refuse();
  list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view word = list.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    counts.push_back(number_of_name(word));
    if (counts.back() < 0 || counts.size() > max_experts) refuse();
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return counts;
}

IterationCounts read_iterations(const std::string& path, ImportSink& sink) {
  IterationCounts found;
  LineFile file(path);
  std::string line;
  constexpr std::string_view column = ",expert distribution";
  if (!file.next(line) || !line.starts_with("iteration,") ||
      line.find(column) == std::string::npos) {
    throw error_in(path, "has no columns 'iteration' and 'expert distribution'", "", 1);
  }
  while (file.next(line)) {
    std::string_view text = line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    const std::int64_t iteration = number_of_name(text.substr(0, text.find(',')));
    const std::size_t quote = text.find('"');
    if (iteration < 0 || quote == std::string_view::npos || !text.ends_with('"') ||
        quote + 1 == text.size()) {
      throw error_in(path, "is not an iteration with its counts", "", file.line_number());
    }
    auto counts = counts_in(text.substr(quote + 1, text.size() - quote - 2), file);
    check_expert_count(std::ssize(counts), sink, path);
    if (!found.emplace(iteration, std::move(counts)).second) {
      throw error_in(path, fmt::format("has iteration {} twice", iteration), "",
                     file.line_number());
    }
  }
  if (found.empty()) throw error_in(path, "has no iterations");
  return found;
}

LayerCounts read_rank(const fs::path& folder, ImportSink& sink) {
  LayerCounts layers;
  for (const std::string& path : input_files({folder.string()})) {
    const std::string name = fs::path(path).stem().string();
    if (!name.starts_with("moe_layer-") || fs::path(path).extension() != ".csv") continue;
    const std::int64_t layer = number_of_name(std::string_view(name).substr(10));
    if (layer < 0 || layer > max_layer_number) {
      throw error_in(path, "is not named moe_layer-<number>.csv");
    }
    if (!layers.emplace(static_cast<int>(layer), read_iterations(path, sink)).second) {
      throw error_in(path, fmt::format("is a second file of layer {}", layer));
    }
  }
  if (layers.empty()) throw error_in(folder.string(), "has no moe_layer-<number>.csv");
  return layers;
}

/// Top-k, if the file tells the tokens of a rank in an iteration.
void read_top_k(const nlohmann::ordered_json& json, const std::string& meta,
                const LayerCounts& rank, ImportSink& sink) {
  std::int64_t tokens = 1;
  for (const char* key : {"batch_size", "seq_len"}) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_number_unsigned() || *at > std::uint64_t{1} << 20) return;
    tokens *= at->get<std::int64_t>();
  }
  const auto& counts = rank.begin()->second.begin()->second;
  const std::int64_t choices = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (tokens > 0 && choices >= tokens && choices % tokens == 0) {
    sink.says_top_k(choices / tokens, meta);
  }
}

std::vector<LayerCounts> read_ranks(const std::string& folder, ImportSink& sink) {
  const std::string meta = folder + "/data.json";
  const auto json = parse_json(read_file(meta), {meta});
  const auto number = [&](const char* key) {
    const auto at = json.is_object() ? json.find(key) : json.end();
    if (at == json.end() || !at->is_number_unsigned() || *at > std::uint64_t{max_experts} ||
        *at == 0) {
      throw error_in(meta, fmt::format("has no sound '{}'", key));
    }
    return at->template get<int>();
  };
  sink.says_experts(number("num_experts"), meta);
  std::vector<LayerCounts> ranks;
  for (int rank = 0; rank < number("world_size"); ++rank) {
    const fs::path of_rank = fs::path(folder) / std::to_string(rank);
    if (!is_folder(of_rank.string())) {
      throw error_in(folder, fmt::format("has no folder of rank {}", rank));
    }
    ranks.push_back(read_rank(of_rank, sink));
    const LayerCounts& first = ranks.front();
    const auto same_keys = [](const auto& a, const auto& b) { return a.first == b.first; };
    bool alike = std::ranges::equal(ranks.back(), first, same_keys);
    for (const auto& [layer, its] : ranks.back()) {
      alike = alike && std::ranges::equal(its, first.begin()->second, same_keys);
    }
    if (!alike) {
      throw error_in(of_rank.string(), "has other layers or iterations than rank 0");
    }
  }
  read_top_k(json, meta, ranks.front(), sink);
  return ranks;
}

}  // namespace

void import_harmoeny(ImportSink& sink) {
  std::int64_t number = 0;
  for (const std::string& folder : sink.options().inputs) {
    const auto ranks = read_ranks(folder, sink);
    for (const auto& [iteration, unused] : ranks.front().begin()->second) {
      CountedStep step{fmt::format("{}, iteration {}", folder, iteration), number++};
      for (const auto& [layer, its] : ranks.front()) {
        auto& sources = step.counts.emplace_back();
        for (const LayerCounts& rank : ranks) sources.push_back(rank.at(layer).at(iteration));
      }
      add_counts(std::move(step), sink);
    }
  }
}

}  // namespace moesim
