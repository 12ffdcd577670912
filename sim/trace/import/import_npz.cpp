// SPDX-License-Identifier: Apache-2.0
// Id arrays [token][layer][choice] or [layer][token][choice], with sequence lengths and weights
// beside them, in one .npz or several .npy.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "sim/trace/import/id_table.h"
#include "sim/trace/import/import_arrays.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Leading sequences of at least this many equal tokens are warm-up passes, not text.
constexpr std::int64_t dummy_pass = 8;

std::vector<std::int32_t> read_lengths(const IdTable& table, const NpyArray* lengths) {
  if (lengths == nullptr) return {static_cast<std::int32_t>(table.tokens())};
  if (lengths->type().kind == 'f' || lengths->shape().size() != 1) {
    throw error_in(lengths->file(),
                   fmt::format("{} is not a list of sequence lengths", lengths->describe()));
  }
  std::vector<std::int32_t> out;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < lengths->count(); ++i) {
    const std::int64_t length = lengths->integer(i);
    if (length <= 0 || length > table.tokens()) {
      throw error_in(lengths->file(), fmt::format("sequence {} has length {}", i, length));
    }
    out.push_back(static_cast<std::int32_t>(length));
    sum += length;
  }
  if (sum != table.tokens()) {
    throw error_in(lengths->file(),
                   fmt::format("the sequences add up to {} tokens but the ids have "
                               "{}",
                               sum, table.tokens()));
  }
  return out;
}

/// A model's dense layers hold zeros, or -1.
void check_dense(const IdTable& table, std::int64_t layer, int number) {
  for (std::int64_t t = 0; t < table.tokens(); ++t) {
    for (std::int64_t k = 0; k < table.choices(); ++k) {
      const auto id = table.at(t, layer, k);
      if (id == 0 || id == -1) continue;
      throw error_in(table.array().file(),
                     fmt::format("layer {} is dense in the model but token {} chose expert {}",
                                 number, t, id));
    }
  }
}

/// The MoE layers of an array that is indexed by model layer, or by the layers that are given.
std::vector<std::int64_t> leave_out_dense(const IdTable& table, const ImportOptions& options,
                                          Import& made) {
  std::vector<std::int64_t> taken;
  for (std::int64_t l = 0; l < table.layers(); ++l) {
    const int number = options.layers.empty() ? static_cast<int>(l) : options.layers[l];
    if (std::ranges::find(options.moe_layers, number) != options.moe_layers.end()) {
      taken.push_back(l);
      made.info.layers.push_back(number);
    } else {
      check_dense(table, l, number);
      made.dropped["of dense layers"] += table.tokens();
    }
  }
  if (taken.empty()) throw error_in(table.array().file(), "holds no MoE layer of the model");
  return taken;
}

/// Which layers of the array to take, and their numbers in the model.
std::vector<std::int64_t> choose_layers(const IdTable& table, const ImportOptions& options,
                                        Import& made) {
  const auto all_as = [&](const std::vector<int>& numbers) {
    made.info.layers = numbers;
    std::vector<std::int64_t> taken(numbers.size());
    std::iota(taken.begin(), taken.end(), 0);
    return taken;
  };
  const std::string& file = table.array().file();
  if (!options.layers.empty()) {
    if (std::ssize(options.layers) != table.layers()) {
      throw error_in(file, fmt::format("has {} layers but --layers names {}", table.layers(),
                                       options.layers.size()));
    }
    if (options.moe_layers.empty()) return all_as(options.layers);
  } else if (std::ssize(options.moe_layers) == table.layers()) {
    return all_as(options.moe_layers);
  } else if (options.moe_layers.empty()) {
    throw error_in(file, "does not say which layers of the model it holds",
                   "give --model or --layers FIRST:COUNT");
  } else if (options.moe_layers.back() >= table.layers()) {
    throw error_in(file,
                   fmt::format("has {} layers but the model has {} MoE layers", table.layers(),
                               options.moe_layers.size()),
                   "--layers FIRST:COUNT says which they are");
  }
  return leave_out_dense(table, options, made);
}

/// Recorders of a fixed width leave the columns beyond top-k at -1.
int choose_top_k(const IdTable& table, const ImportOptions& options) {
  const auto wanted = options.top_k > 0 ? options.top_k : table.choices();
  if (wanted > table.choices()) {
    throw error_in(table.array().file(), fmt::format("has {} choices per token but top-k is {}",
                                                     table.choices(), wanted));
  }
  for (std::int64_t t = 0; t < table.tokens(); ++t) {
    for (std::int64_t l = 0; l < table.layers(); ++l) {
      for (std::int64_t k = wanted; k < table.choices(); ++k) {
        if (table.at(t, l, k) != -1) {
          throw error_in(
              table.array().file(),
              fmt::format("has {} choices per token but top-k is {}", table.choices(), wanted));
        }
      }
    }
  }
  return static_cast<int>(wanted);
}

/// Marks tokens to keep; shortens or removes the sequences of the others.
std::vector<std::int64_t> choose_tokens(const IdTable& table, bool has_lengths, Import& made) {
  std::vector<std::int64_t> kept;
  std::vector<std::int32_t> lengths;
  std::int64_t first = 0;
  bool leading = has_lengths;
  for (const std::int32_t length : made.step.sequence_lengths) {
    std::int64_t equal = 1;
    while (leading && equal < length && table.same(first, first + equal)) ++equal;
    leading = leading && length >= dummy_pass && equal == length && !table.all(first, -1);
    if (leading) {
      made.dropped["of leading passes of equal tokens (warm-up)"] += length * table.layers();
    } else {
      const std::size_t before = kept.size();
      for (std::int64_t t = first; t < first + length; ++t) {
        if (!table.all(t, -1)) {
          kept.push_back(t);
        } else {
          made.dropped["of padding (-1)"] += table.layers();
        }
      }
      if (kept.size() > before) lengths.push_back(static_cast<std::int32_t>(kept.size() - before));
    }
    first += length;
  }
  if (kept.empty()) throw error_in(table.array().file(), "holds padding only");
  made.step.sequence_lengths = std::move(lengths);
  return kept;
}

double scale_of(const NpyArray& weights, const ImportOptions& options) {
  if (options.weight_scale != 0) return options.weight_scale;
  if (weights.type().kind == 'f') return 1;
  if (fs::path(weights.file()).stem().string().ends_with("1e4")) return 1e-4;
  throw error_in(weights.file(),
                 fmt::format("holds {} weights of unknown unit", weights.type().name()),
                 "give --weight-scale, such as 1e-4");
}

int checked_id(const IdTable& table, std::int64_t token, std::int64_t layer, std::int64_t k,
               int experts) {
  const std::int64_t id = table.at(token, layer, k);
  if (id >= 0 && id < experts) return static_cast<int>(id);
  throw error_in(
      table.array().file(),
      fmt::format("token {}, layer {} of the array: expert {} of a model with {} experts", token,
                  layer, id, experts),
      "ids beyond the experts are slots, shared experts, padding or another model's");
}

}  // namespace

Import import_npz(const ImportOptions& options, const TraceProgress& progress) {
  const ImportArrays arrays = read_import_arrays(options);
  const NpyArray* lengths = arrays.lengths ? &*arrays.lengths : nullptr;
  const NpyArray* weights = arrays.weights ? &*arrays.weights : nullptr;
  const IdTable table(arrays.ids, lengths, options.order);
  Import made;
  made.info.experts = options.experts;
  made.info.top_k = choose_top_k(table, options);
  made.info.phase = Phase::mixed;
  made.step.sequence_lengths = read_lengths(table, lengths);
  if (lengths == nullptr) {
    made.warnings.push_back({Severity::warning, arrays.ids.file(), 0, 0,
                             "no array of sequence lengths: all tokens are taken as one sequence",
                             "", "give one beside it, or name it with --lengths"});
  }
  const auto layers = choose_layers(table, options, made);
  const auto tokens = choose_tokens(table, lengths != nullptr, made);
  const double scale = weights != nullptr ? scale_of(*weights, options) : 1;

  const auto choices = std::ssize(layers) * std::ssize(tokens) * made.info.top_k;
  made.step.ids = IdArray(options.experts, choices);
  std::int64_t to = 0;
  for (const std::int64_t l : layers) {
    if (progress) progress(static_cast<double>(to) / static_cast<double>(choices));
    for (const std::int64_t t : tokens) {
      for (std::int64_t k = 0; k < made.info.top_k; ++k, ++to) {
        made.step.ids.set(to, checked_id(table, t, l, k, options.experts));
        if (weights == nullptr) continue;
        const double weight = weights->real(table.index(t, l, k)) * scale;
        made.step.weights.push_back(static_cast<float>(weight));
      }
    }
  }
  return made;
}

}  // namespace moesim
