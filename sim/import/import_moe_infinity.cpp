// SPDX-License-Identifier: Apache-2.0
// MoE-Infinity's expert activation matrices (EfficientMoE/MoE-Infinity, memory/expert_tracer.py):
// .npy [capacity][layer][expert], how often each expert was used in one sequence.
#include <fmt/format.h>

#include "sim/import/counts.h"
#include "sim/import/formats.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

void add_matrix(const NpyArray& array, std::int64_t sequence, ImportSink& sink) {
  const std::int64_t layers = array.shape()[1], experts = array.shape()[2];
  CountedStep step{fmt::format("{}, sequence {}", array.file(), sequence)};
  step.source = CountedSource::sequence;
  std::int64_t at = sequence * layers * experts;
  for (std::int64_t l = 0; l < layers; ++l) {
    auto& counts = step.counts.emplace_back(1).front();
    for (std::int64_t e = 0; e < experts; ++e) counts.push_back(count_at(array, at++));
  }
  if (step.empty()) return sink.drop("of unused places", layers);
  add_counts(std::move(step), sink);
}

}  // namespace

void import_moe_infinity(ImportSink& sink) {
  sink.experts();
  for (const std::string& path : input_files(sink.options().inputs)) {
    const NpyArray array = NpyArray::open(path);
    if (array.shape().size() != 3) {
      throw error_in(path, fmt::format("has shape {}; matrices are [sequence][layer][expert]",
                                       shape_text(array.shape())));
    }
    check_expert_count(array.shape()[2], sink, path);
    const std::int64_t sequences = array.shape()[0];
    for (std::int64_t s = 0; s < sequences; ++s) {
      sink.progress(static_cast<double>(s) / static_cast<double>(sequences));
      add_matrix(array, s, sink);
    }
  }
}

}  // namespace moesim
