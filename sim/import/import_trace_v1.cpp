// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's proposed "trace v1": a folder per (layer, step, microbatch) with manifest.json and
// tensors/{expert_ids,gates,source_rank}.pt. Its token_ids are expert ids as well; they are not
// read.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

struct Manifest {
  std::string folder;
  std::int64_t step, microbatch, layer, tokens, experts, top_k;
};

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const auto json = parse_json(read_file(path), {path});
  const auto number = [&](const char* key, std::int64_t most) {
    const auto at = json.is_object() ? json.find(key) : json.end();
    if (at == json.end() || !at->is_number_unsigned() ||
        at->template get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
      throw error_in(path, fmt::format("has no sound '{}'", key));
    }
    return at->template get<std::int64_t>();
  };
  if (const auto version = number("schema_version", 1 << 20); version != 1) {
    throw error_in(path, fmt::format("is of schema version {}; 1 is read", version));
  }
  constexpr std::int64_t many = std::int64_t{1} << 40;
  return {folder,
          number("step_id", many),
          number("microbatch_id", many),
          number("logical_layer_id", max_layer_number),
          number("logical_num_tokens", std::int64_t{1} << 31),
          number("num_experts", max_experts),
          number("topk", max_experts)};
}

std::vector<Manifest> find_manifests(const std::vector<std::string>& inputs) {
  std::vector<Manifest> found;
  for (const auto& input : inputs) {
    if (!is_folder(input)) throw error_in(input, "is not a folder of trace v1");
    if (is_there(input + "/manifest.json")) found.push_back(read_manifest(input));
    std::vector<std::string> inside;
    for (auto at = fs::recursive_directory_iterator(input); at != end(at); ++at) {
      const fs::path& path = at->path();
      if (is_hidden(path)) {
        at.disable_recursion_pending();
      } else if (is_there((path / "manifest.json").string())) {
        inside.push_back(path.string());
      }
    }
    for (const auto& folder : inside) found.push_back(read_manifest(folder));
  }
  if (found.empty()) throw error_in(inputs.front(), "has no manifest.json");
  std::ranges::stable_sort(found, {}, [](const Manifest& m) {
    return std::tuple(m.step, m.microbatch, m.layer, m.folder);
  });
  return found;
}

NpyArray read_ids(const Manifest& m) {
  const std::string path = m.folder + "/tensors/expert_ids.pt";
  const TorchFile file(path);
  NpyArray ids = file.load(file.root(), "expert_ids");
  if (ids.shape() != std::vector{m.tokens, m.top_k}) {
    throw error_in(path, fmt::format("holds {} but the manifest says {} of {} choices",
                                     ids.describe(), counted(m.tokens, "token"), m.top_k));
  }
  return ids;
}

/// The rank of every token; ranks hold contiguous tokens, in ascending order.
std::vector<std::pair<int, std::int32_t>> ranks_of(const Manifest& m) {
  const std::string path = m.folder + "/tensors/source_rank.pt";
  const TorchFile file(path);
  const NpyArray ranks = file.load(file.root(), "source_rank");
  if (!ranks.type().is_integer() || ranks.shape() != std::vector{m.tokens}) {
    throw error_in(path, fmt::format("holds {}, not a rank per token", ranks.describe()));
  }
  std::vector<std::pair<int, std::int32_t>> parts;  // rank, tokens
  for (std::int64_t t = 0; t < m.tokens; ++t) {
    const std::int64_t rank = ranks.integer(t);
    if (rank < 0 || rank >= 1 << 20 || (!parts.empty() && rank < parts.back().first)) {
      throw error_in(path, fmt::format("token {} is of rank {}; ranks ascend", t, rank));
    }
    if (parts.empty() || parts.back().first != rank) parts.emplace_back(static_cast<int>(rank), 0);
    ++parts.back().second;
  }
  return parts;
}

/// All layers of one microbatch.
void add_microbatch(const std::vector<Manifest>& layers, ImportSink& sink) {
  const Manifest& first = layers.front();
  std::vector<NpyArray> ids;
  std::vector<int> numbers;
  for (const Manifest& m : layers) {
    if (m.tokens != first.tokens || m.top_k != first.top_k || m.experts != first.experts) {
      throw error_in(m.folder,
                     fmt::format("differs from {} in tokens, top-k or experts", first.folder));
    }
    if (!numbers.empty() && numbers.back() == m.layer) {
      throw error_in(m.folder, fmt::format("is a second folder of layer {}", m.layer));
    }
    numbers.push_back(static_cast<int>(m.layer));
    ids.push_back(read_ids(m));
  }
  const ChoiceTable table(std::move(ids));
  std::int64_t from = 0;
  for (const auto& [rank, tokens] : ranks_of(first)) {
    RoutedPass pass{first.folder, table.part(from, tokens), {tokens}};
    pass.layers = numbers;
    pass.step = first.step;
    pass.source_rank = rank;
    pass.phase = Phase::training;
    sink.add_microbatch(pass);
    from += tokens;
  }
}

}  // namespace

void import_trace_v1(ImportSink& sink) {
  const auto found = find_manifests(sink.options().inputs);
  for (std::size_t i = 0; i < found.size();) {
    sink.progress(static_cast<double>(i) / static_cast<double>(found.size()));
    sink.says_experts(static_cast<int>(found[i].experts), found[i].folder);
    std::vector<Manifest> layers;
    const auto key = std::pair(found[i].step, found[i].microbatch);
    for (; i < found.size() && std::pair(found[i].step, found[i].microbatch) == key; ++i) {
      layers.push_back(found[i]);
    }
    add_microbatch(layers, sink);
  }
}

}  // namespace moesim
