// SPDX-License-Identifier: Apache-2.0
// Id arrays [token][layer][choice] or [layer][token][choice], with sequence lengths and weights
// next to them, in one .npz or several .npy.
#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "sim/import/formats.h"
#include "sim/import/import_arrays.h"
#include "sim/import/import_sink.h"
#include "sim/import/layer_numbering.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Of sequences; throws Error for an array that does not list lengths.
std::int64_t sum_of(const NpyArray& lengths) {
  if (!lengths.type().is_integer() || lengths.shape().size() != 1) {
    throw error_in(lengths.file(),
                   fmt::format("{} is not a list of sequence lengths", lengths.describe()));
  }
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < lengths.count(); ++i) {
    const std::int64_t length = lengths.integer(i);
    if (length <= 0 || length > std::numeric_limits<std::int32_t>::max()) {
      throw error_in(lengths.file(), fmt::format("sequence {} has length {}", i, length));
    }
    sum += length;
  }
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
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < lengths->count(); ++i) {
    const std::int64_t length = lengths->integer(i);
    if (length > table.tokens()) {
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

/// Whether a recording may have `count` layers: those of --layers, the MoE layers, or all.
bool can_be_layers(std::int64_t count, const ImportOptions& options) {
  if (!options.layers.empty()) return count == std::ssize(options.layers);
  const auto moe = std::ssize(options.moe_layers);
  return moe > 0 && (count == moe || count == options.model_layers);
}

/// The order that the flags, the lengths or the model's layers leave; "" if there are several.
std::string order_of(const NpyArray& ids, std::optional<std::int64_t> tokens,
                     const ImportOptions& options) {
  const auto& shape = ids.shape();
  if (!options.order.empty() || shape.size() != 3) return options.order;
  if ((tokens == shape[0]) != (tokens == shape[1])) return tokens == shape[0] ? "tlk" : "ltk";
  const bool first = can_be_layers(shape[0], options), second = can_be_layers(shape[1], options);
  return first == second ? "" : first ? "ltk" : "tlk";
}

/// Arrays may have axes of one batch before theirs.
NpyArray of_one_batch(const NpyArray& array, std::size_t axes = 3) {
  auto shape = array.shape();
  while (shape.size() > axes && shape.front() == 1) shape.erase(shape.begin());
  return array.reshaped(std::move(shape));
}

ChoiceTable table_of(const std::vector<NpyArray>& arrays, bool per_layer,
                     std::optional<std::int64_t> tokens, const std::string& order) {
  if (!per_layer) return {of_one_batch(arrays.front()), tokens, order};
  std::vector<NpyArray> layers;
  for (const NpyArray& array : arrays) layers.push_back(of_one_batch(array, 2));
  return ChoiceTable(std::move(layers));
}

}  // namespace

void import_npz(ImportSink& sink) {
  const ImportOptions& options = sink.options();
  sink.experts();
  const ImportArrays arrays = read_import_arrays(options);
  const std::string where = arrays.ids.front().file();
  const NpyArray* lengths = arrays.lengths ? &*arrays.lengths : nullptr;
  std::optional<std::int64_t> tokens;
  if (lengths != nullptr) tokens = sum_of(*lengths);
  const std::string order = order_of(of_one_batch(arrays.ids.front()), tokens, options);
  const ChoiceTable ids = table_of(arrays.ids, arrays.per_layer, tokens, order);
  RoutedPass pass{where, ids, read_lengths(ids, lengths)};
  pass.warm_up_first = lengths != nullptr;
  if (!arrays.layers.empty() && options.layers.empty()) {
    pass.layers = numbered_layers(arrays.layers, options, where);
  }
  if (lengths == nullptr) {
    sink.warn({Severity::warning, where, 0, 0,
               "no array of sequence lengths: all tokens are taken as " +
                   (pass.lengths.size() == 1
                        ? std::string("one sequence")
                        : fmt::format("sequences of {} tokens", default_step_tokens)),
               "", "give one next to it, or name it with --lengths"});
  }
  if (!arrays.weights.empty()) {
    pass.weights = table_of(arrays.weights, arrays.per_layer, tokens, order);
    pass.weight_scale = scale_of(arrays.weights.front(), options);
  }
  pass.progress = true;
  sink.add(pass);
}

}  // namespace moesim
