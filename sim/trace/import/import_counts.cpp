// SPDX-License-Identifier: Apache-2.0
// Counts per step, layer, source and expert: arrays of any origin, SGLang's recorder (modes stat
// and per_pass), TensorRT-LLM's statistics.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/trace/import/counts.h"
#include "sim/trace/import/formats.h"
#include "sim/trace/import/import_sink.h"
#include "sim/trace/import/input_hash.h"
#include "sim/trace/import/torch_file.h"
#include "sim/trace/import/trtllm_files.h"

namespace moesim {
namespace {

/// Entries [first, ...] of an array [layer][source][expert] or, with one source, [layer][expert].
CountedStep step_of(const NpyArray& array, std::int64_t first, std::int64_t layers,
                    std::int64_t sources, std::int64_t experts) {
  CountedStep step{array.file()};
  if (sources == 1) step.source = CountedSource::unknown;
  for (std::int64_t l = 0; l < layers; ++l) {
    auto& layer = step.counts.emplace_back();
    for (std::int64_t s = 0; s < sources; ++s) {
      auto& counts = layer.emplace_back();
      for (std::int64_t e = 0; e < experts; ++e) counts.push_back(count_at(array, first++));
    }
  }
  return step;
}

/// [step][layer][expert] or [step][layer][source][expert].
void add_array(const NpyArray& array, ImportSink& sink, std::int64_t& number) {
  const auto& shape = array.shape();
  if (shape.size() != 3 && shape.size() != 4) {
    throw error_in(array.file(), fmt::format("has shape {}; counts are [step][layer][expert] or "
                                             "[step][layer][source][expert]",
                                             shape_text(shape)));
  }
  const std::int64_t sources = shape.size() == 4 ? shape[2] : 1;
  check_counted_experts(shape.back(), sink, array.file());
  for (std::int64_t s = 0; s < shape[0]; ++s, ++number) {
    const std::int64_t size = shape[1] * sources * shape.back();
    CountedStep step = step_of(array, s * size, shape[1], sources, shape.back());
    step.where = fmt::format("{}, step {}", array.file(), s);
    step.number = number;
    if (step.empty()) {
      sink.drop("of steps without counts", shape[1]);
    } else {
      add_counts(std::move(step), sink);
    }
  }
}

/// Counts of slots as counts of experts.
std::vector<std::int64_t> of_experts(const NpyArray& counts, const NpyArray& map,
                                     std::int64_t layer, int experts) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(experts));
  const std::int64_t slots = counts.shape()[1];
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t expert = map.integer(layer * slots + s);
    if (expert < 0 || expert >= experts) {
      throw error_in(map.file(), fmt::format("slot {} holds expert {} of {}", s, expert, experts));
    }
    sums[expert] += count_at(counts, layer * slots + s);
  }
  return sums;
}

/// Whether the ranks counted what their own slots received (DeepEP's low-latency kernels), not what
/// their tokens chose: then every rank has counts in its own slots alone.
bool counts_arrivals(const std::vector<NpyArray>& of_rank) {
  if (of_rank.size() < 2) return false;
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    const std::int64_t slots = of_rank[r].shape()[1];
    const std::int64_t share = slots / static_cast<std::int64_t>(of_rank.size());
    for (std::int64_t i = 0; i < of_rank[r].count(); ++i) {
      const bool own = share > 0 && i % slots / share == static_cast<std::int64_t>(r);
      if (!own && of_rank[r].integer(i) != 0) return false;
    }
  }
  return true;
}

struct PassCounts {
  std::vector<NpyArray> of_rank;  // [layer][slot]
  NpyArray map;
};

void add_pass(std::int64_t number, const PassCounts& pass, ImportSink& sink) {
  const auto& shape = pass.of_rank.front().shape();
  for (const NpyArray& counts : pass.of_rank) {
    if (counts.shape() != pass.map.shape() || shape.size() != 2 || !counts.type().is_integer() ||
        !pass.map.type().is_integer()) {
      throw error_in(counts.file(), fmt::format("{} does not fit its map of slots {}",
                                                counts.describe(), pass.map.describe()));
    }
  }
  CountedStep step{pass.of_rank.front().file(), number};
  const bool joined = counts_arrivals(pass.of_rank);
  if (joined) step.source = CountedSource::unknown;
  for (std::int64_t l = 0; l < shape[0]; ++l) {
    auto& layer = step.counts.emplace_back();
    for (const NpyArray& counts : pass.of_rank) {
      auto sums = of_experts(counts, pass.map, l, sink.experts());
      if (joined && !layer.empty()) {
        for (std::size_t e = 0; e < sums.size(); ++e) layer.front()[e] += sums[e];
      } else {
        layer.push_back(std::move(sums));
      }
    }
  }
  if (step.empty()) return sink.drop("of idle passes", shape[0]);
  add_counts(std::move(step), sink);
}

}  // namespace

void import_counts(ImportSink& sink) {
  std::int64_t number = 0;
  for (const std::string& path : input_files(sink.options().inputs)) {
    add_array(NpyArray::open(path), sink, number);
  }
}

void import_sglang_counts(ImportSink& sink) {
  std::int64_t number = 0;
  std::map<std::int64_t, std::map<std::int64_t, NpyArray>> passes;  // by rank
  std::optional<NpyArray> map;
  for (const std::string& path : input_files(sink.options().inputs)) {
    const TorchFile file(path);
    if (pickle_get(file.root(), "logical_count") != nullptr) {
      add_array(file.load_at(file.root(), "logical_count"), sink, number);
      continue;
    }
    map = file.load_at(file.root(), "last_physical_to_logical_map");
    for (const PickleValue& record : file.items(file.at(file.root(), "records"), "records")) {
      passes[file.integer_at(record, "forward_pass_id")].emplace(
          file.integer_at(record, "rank"), file.load_at(record, "global_physical_count"));
    }
  }
  for (const auto& [pass, ranks] : passes) {
    PassCounts counts{{}, *map};
    for (const auto& [rank, array] : ranks) counts.of_rank.push_back(array);
    add_pass(pass, counts, sink);
  }
}

void import_trtllm_counts(ImportSink& sink) {
  const auto ranks = read_trtllm(sink, RankFileKind::counts);
  const RankTensors& first = ranks.begin()->second;
  for (const auto& [iteration, layers] : first.iterations) {
    CountedStep step{fmt::format("{}, iteration {}", first.file.path(), iteration), iteration};
    for (const auto& [layer, tensor] : layers) {
      step.layers.push_back(layer);
      auto& sources = step.counts.emplace_back();
      for (const auto& [rank, its] : ranks) {
        const NpyArray& counts = its.iterations.at(iteration).at(layer);
        check_counted_experts(counts.count(), sink, counts.file());
        auto& of_source = sources.emplace_back();
        for (std::int64_t e = 0; e < counts.count(); ++e) of_source.push_back(count_at(counts, e));
      }
    }
    add_counts(std::move(step), sink);
  }
}

}  // namespace moesim
