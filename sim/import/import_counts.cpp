// SPDX-License-Identifier: Apache-2.0
// Counts per step, layer, source and expert: arrays of any origin, TensorRT-LLM's statistics.
#include <fmt/format.h>

#include <algorithm>

#include "sim/import/count_text.h"
#include "sim/import/counts.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/trtllm_files.h"

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

}  // namespace

void add_count_array(const NpyArray& array, ImportSink& sink, std::int64_t& number,
                     bool of_all_layers) {
  const auto& shape = array.shape();
  if (shape.size() == 2) {  // a single step
    return add_count_array(array.reshaped({1, shape[0], shape[1]}), sink, number, of_all_layers);
  }
  if (shape.size() != 3 && shape.size() != 4) {
    throw error_in(array.file(), fmt::format("has shape {}; counts are [layer][expert], "
                                             "[step][layer][expert] or "
                                             "[step][layer][source][expert]",
                                             shape_text(shape)));
  }
  const std::int64_t sources = shape.size() == 4 ? shape[2] : 1;
  check_expert_count(shape.back(), sink, array.file());
  for (std::int64_t s = 0; s < shape[0]; ++s, ++number) {
    const std::int64_t size = shape[1] * sources * shape.back();
    CountedStep step = step_of(array, s * size, shape[1], sources, shape.back());
    step.where = fmt::format("{}, step {}", array.file(), s);
    step.number = number;
    step.of_all_layers = of_all_layers;
    if (step.empty()) {
      sink.drop("of steps without counts", shape[1]);
    } else {
      add_counts(std::move(step), sink);
    }
  }
}

void import_counts(ImportSink& sink) {
  std::int64_t number = 0;
  for (const std::string& path : input_files(sink.options().inputs)) {
    add_count_array(count_array_in(path), sink, number, false);
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
        check_expert_count(counts.count(), sink, counts.file());
        auto& of_source = sources.emplace_back();
        for (std::int64_t e = 0; e < counts.count(); ++e) of_source.push_back(count_at(counts, e));
      }
    }
    add_counts(std::move(step), sink);
  }
}

}  // namespace moesim
