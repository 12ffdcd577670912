// SPDX-License-Identifier: Apache-2.0
// Id arrays [token][layer][choice] or [layer][token][choice], with sequence lengths and weights
// next to them, in one .npz or several .npy.
#include <fmt/format.h>

#include <filesystem>

#include "sim/import/formats.h"
#include "sim/import/import_arrays.h"
#include "sim/import/import_sink.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

std::int64_t sum_of(const NpyArray& lengths) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < lengths.count(); ++i) sum += lengths.integer(i);
  return sum;
}

/// Lengths that nobody knows: one sequence, or several where it would be more than a step.
std::vector<std::int32_t> unknown_lengths(std::int64_t tokens) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(tokens / default_step_tokens),
                                default_step_tokens);
  if (const std::int64_t last = tokens % default_step_tokens; last > 0 || out.empty()) {
    out.push_back(static_cast<std::int32_t>(last));
  }
  return out;
}

std::vector<std::int32_t> read_lengths(const ChoiceTable& table, const NpyArray* lengths) {
  if (lengths == nullptr) return unknown_lengths(table.tokens());
  if (lengths->type().kind == 'f' || lengths->shape().size() != 1) {
    throw error_in(lengths->file(),
                   fmt::format("{} is not a list of sequence lengths", lengths->describe()));
  }
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < lengths->count(); ++i) {
    const std::int64_t length = lengths->integer(i);
    if (length <= 0 || length > table.tokens()) {
      throw error_in(lengths->file(), fmt::format("sequence {} has length {}", i, length));
    }
    out.push_back(static_cast<std::int32_t>(length));
  }
  if (const std::int64_t sum = sum_of(*lengths); sum != table.tokens()) {
    throw error_in(
        lengths->file(),
        fmt::format("the sequences add up to {} tokens but the ids have {}", sum, table.tokens()));
  }
  return out;
}

double scale_of(const NpyArray& weights, const ImportOptions& options) {
  if (options.weight_scale != 0) return options.weight_scale;
  if (weights.type().kind == 'f') return 1;
  if (fs::path(weights.file()).stem().string().ends_with("1e4")) return 1e-4;
  throw error_in(weights.file(),
                 fmt::format("holds {} weights of unknown unit", weights.type().name()),
                 "give --weight-scale, such as 1e-4");
}

}  // namespace

void import_npz(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  sink.experts();
  const ImportArrays arrays = read_import_arrays(options);
  const NpyArray* lengths = arrays.lengths ? &*arrays.lengths : nullptr;
  std::optional<std::int64_t> tokens;
  if (lengths != nullptr) tokens = sum_of(*lengths);
  const ChoiceTable ids(arrays.ids, tokens, options.order);
  RoutedPass pass{arrays.ids.file(), ids, read_lengths(ids, lengths)};
  pass.warm_up_first = lengths != nullptr;
  if (lengths == nullptr) {
    sink.warn({Severity::warning, arrays.ids.file(), 0, 0,
               "no array of sequence lengths: all tokens are taken as " +
                   (pass.lengths.size() == 1
                        ? std::string("one sequence")
                        : fmt::format("sequences of {} tokens", default_step_tokens)),
               "", "give one next to it, or name it with --lengths"});
  }
  if (arrays.weights) {
    pass.weights = ChoiceTable(*arrays.weights, tokens, options.order);
    pass.weight_scale = scale_of(*arrays.weights, options);
  }
  pass.progress = true;
  sink.add(pass);
}

}  // namespace moesim
