// SPDX-License-Identifier: Apache-2.0
#include "sim/import/layer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <type_traits>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/most.h"
#include "sim/import/layer_numbering.h"
#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

/// Whether the layers that are dense in the model hold what an engine leaves there.
bool dense_layers_are_empty(const RoutedPass& pass, const ImportOptions& options) {
  for (std::int64_t l = 0; l < pass.ids.layers(); ++l) {
    if (std::ranges::find(options.moe_layers, static_cast<int>(l)) != options.moe_layers.end()) {
      continue;
    }
    for (std::int64_t t = 0; t < pass.ids.tokens(); ++t) {
      for (std::int64_t k = 0; k < pass.ids.choices(); ++k) {
        const auto id = pass.ids.at(t, l, k);
        if (id != 0 && id != -1) return false;
      }
    }
  }
  return true;
}

/// The number of each layer of the recording: those of the files, of the flags, of the model's MoE
/// layers, or from 0 on if all layers of the model are recorded. -1: of multi-token prediction.
std::vector<int> numbers_of(const RoutedPass& pass, const ImportOptions& options) {
  const auto layers = pass.ids.layers();
  if (!options.layers.empty()) {
    if (!pass.layers.empty()) {
      throw error_in(pass.where, "says itself which layers it holds", "drop --layers");
    }
    if (std::ssize(options.layers) != layers) {
      throw error_in(pass.where, fmt::format("has {} but --layers names {}",
                                             counted(layers, "layer"), options.layers.size()));
    }
    return without_mtp(options.layers, options);
  }
  if (!pass.layers.empty()) return without_mtp(pass.layers, options);
  if (options.moe_layers.empty()) {
    throw error_in(pass.where, "does not say which layers of the model it holds",
                   "give --model or --layers FIRST:COUNT");
  }
  if (std::ssize(options.moe_layers) == layers) return options.moe_layers;
  const std::int64_t extra = layers - std::ssize(options.moe_layers);
  // Whoever does not hook routers may have recorded another model's layers.
  const bool may_be_mtp =
      are_mtp_layers(extra, options) && (pass.of_routers || options.mtp_layers > 0);
  const bool all_layers =
      options.moe_layers.back() < layers &&
      (!(pass.of_routers || may_be_mtp) || dense_layers_are_empty(pass, options));
  if (!all_layers && may_be_mtp) {
    std::vector<int> numbers = options.moe_layers;
    numbers.resize(static_cast<std::size_t>(layers), -1);
    return numbers;
  }
  if (!all_layers) {
    throw error_in(
        pass.where,
        fmt::format("has {} but the model has {} MoE layers{}",
                    counted(layers, pass.of_routers ? "router" : "layer"),
                    options.moe_layers.size(),
                    options.mtp_layers > 0
                        ? fmt::format(" and {} of multi-token prediction", options.mtp_layers)
                        : ""),
        "--layers FIRST:COUNT says which they are; routers of multi-token prediction come last");
  }
  std::vector<int> all(static_cast<std::size_t>(layers));
  std::iota(all.begin(), all.end(), 0);
  return without_mtp(std::move(all), options);
}

bool has(const std::vector<int>& layers, int number) {
  return std::ranges::find(layers, number) != layers.end();
}

/// Layers that the file numbers itself are all MoE layers of the model: otherwise a pipeline stage
/// is missing, or the numbers are counted in another way.
void check_complete(const RoutedPass& pass, const LayerChoice& choice,
                    const ImportOptions& options) {
  if (pass.layers.empty() || options.moe_layers.empty() || choice.numbers == options.moe_layers) {
    return;
  }
  throw error_in(pass.where,
                 fmt::format("has layers {} but the model's MoE layers are {}",
                             fmt::join(pass.layers, ", "), fmt::join(options.moe_layers, ", ")),
                 "--experts and --top-k instead of --model take any layers");
}

int choose_top_k(const RoutedPass& pass, const ImportOptions& options) {
  const std::int64_t choices = pass.ids.choices();
  const std::int64_t wanted = options.top_k > 0 ? options.top_k : choices;
  if (wanted > choices || choices > max_experts) {
    throw error_in(pass.ids.file(),
                   fmt::format("has {} choices per token but top-k is {}", choices, wanted));
  }
  return static_cast<int>(wanted);
}

/// Tokens that are copied together. In a token-major array, a cache line can hold several layers of
/// a token. In blocks of this size a line stays in the cache until all its layers are copied;
/// otherwise it would be fetched again for each layer.
constexpr std::size_t block = 128;

/// Copies the rows of some tokens of one layer, `lanes` ids at a time, whose number compilers know.
/// Returns whether all ids are below `experts`.
template <std::size_t lanes, class From, class To>
bool copy_lanes(const RoutedPass& pass, std::int64_t layer, std::size_t top_k,
                std::span<const std::int64_t> tokens, std::uint64_t experts, To* to) {
  using Unsigned = std::make_unsigned_t<From>;  // in which those below 0 are beyond all experts
  const auto* const from = static_cast<const char*>(pass.ids.values(layer).data());
  std::array<Unsigned, lanes> most{};
  for (const std::int64_t t : tokens) {
    const char* row = from + pass.ids.index(t, layer, 0) * std::int64_t{sizeof(From)};
    for (std::size_t done = 0; done < top_k; done += lanes) {
      std::array<Unsigned, lanes> ids;
      std::memcpy(ids.data(), row + done * sizeof(From), sizeof ids);
      for (std::size_t k = 0; k < lanes; ++k) most[k] = std::max(most[k], ids[k]);
      for (std::size_t k = 0; k < lanes; ++k) to[k] = static_cast<To>(ids[k]);
      to += lanes;
    }
  }
  return std::ranges::all_of(most, [&](Unsigned id) { return id < experts; });
}

template <class From, class To>
bool copy_rows(const RoutedPass& pass, std::int64_t layer, std::size_t top_k,
               std::span<const std::int64_t> tokens, std::uint64_t experts, To* to) {
  if (top_k % 8 == 0) return copy_lanes<8, From>(pass, layer, top_k, tokens, experts, to);
  if (top_k % 2 == 0) return copy_lanes<2, From>(pass, layer, top_k, tokens, experts, to);
  return copy_lanes<1, From>(pass, layer, top_k, tokens, experts, to);
}

/// Calls use(T{}), with T the C++ type of the array's elements, and returns its result.
template <class Use>
bool with_type(NpyType type, const Use& use) {
  const bool is_signed = type.kind == 'i';
  switch (type.size) {
    case 1:
      return is_signed ? use(std::int8_t{}) : use(std::uint8_t{});
    case 2:
      return is_signed ? use(std::int16_t{}) : use(std::uint16_t{});
    case 4:
      return is_signed ? use(std::int32_t{}) : use(std::uint32_t{});
    default:
      return use(std::int64_t{});
  }
}

}  // namespace

LayerChoice choose_layers(const RoutedPass& pass, const ImportOptions& options) {
  LayerChoice choice;
  const auto numbers = numbers_of(pass, options);
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::size_t l) { return numbers[l]; });
  choice.mtp = std::ranges::count(numbers, -1);
  for (const std::size_t l : order) {
    if (numbers[l] < 0) continue;
    if (!options.moe_layers.empty() && !has(options.moe_layers, numbers[l])) {
      choice.dense.push_back(static_cast<std::int64_t>(l));
      continue;
    }
    if (!choice.numbers.empty() && choice.numbers.back() == numbers[l]) {
      throw error_in(pass.where, fmt::format("has layer {} twice", numbers[l]));
    }
    choice.taken.push_back(static_cast<std::int64_t>(l));
    choice.numbers.push_back(numbers[l]);
  }
  if (choice.taken.empty()) throw error_in(pass.where, "holds no MoE layer of the model");
  check_complete(pass, choice, options);
  choice.top_k = choose_top_k(pass, options);
  return choice;
}

void check_left_out(const RoutedPass& pass, const LayerChoice& choice, std::int64_t first,
                    std::int64_t tokens) {
  const ChoiceTable& ids = pass.ids;
  for (const std::int64_t layer : choice.dense) {
    for (std::int64_t t = first; t < first + tokens; ++t) {
      for (std::int64_t k = 0; k < ids.choices(); ++k) {
        const auto id = ids.at(t, layer, k);
        if (id == 0 || id == -1) continue;
        throw error_in(
            pass.where,
            fmt::format("layer {} is dense in the model but token {} chose expert {}",
                        pass.layers.empty() ? layer : pass.layers[layer], t, id),
            fmt::format("the file has {}, and those of the model with experts are {}: counted in "
                        "another way, of multi-token prediction ('mtp' of the model says how "
                        "many), or another model's",
                        counted(ids.layers(), "layer"), fmt::join(choice.numbers, ", ")));
      }
    }
  }
  if (choice.top_k == ids.choices()) return;
  for (const std::int64_t layer : choice.taken) {
    for (std::int64_t t = first; t < first + tokens; ++t) {
      for (std::int64_t k = choice.top_k; k < ids.choices(); ++k) {
        if (ids.at(t, layer, k) == -1) continue;
        throw error_in(pass.ids.file(), fmt::format("has {} choices per token but top-k is {}",
                                                    ids.choices(), choice.top_k));
      }
    }
  }
}

IdNarrower::IdNarrower(const RoutedPass& pass, const LayerChoice& layers, int experts)
    : pass_(pass), layers_(layers), experts_(experts) {
  if (!pass.logical_of) return;
  const auto& shape = pass.logical_of->shape();
  if (shape.size() != 2 || shape[0] != pass.ids.layers() || !pass.logical_of->type().is_integer()) {
    throw error_in(pass.where,
                   fmt::format("has {}, but its map from slots to experts is {}",
                               counted(pass.ids.layers(), "layer"), pass.logical_of->describe()));
  }
}

std::int64_t IdNarrower::logical(std::size_t layer, std::int64_t id) const {
  if (!pass_.logical_of) return id;
  const std::int64_t slots = pass_.logical_of->shape()[1];
  if (id < 0 || id >= slots) return -1;
  return pass_.logical_of->integer(layers_.taken[layer] * slots + id);
}

std::optional<IdNarrower::Bad> IdNarrower::first_bad(
    const std::vector<std::int64_t>& tokens) const {
  for (std::size_t l = 0; l < layers_.taken.size(); ++l) {
    for (const std::int64_t t : tokens) {
      for (int k = 0; k < layers_.top_k; ++k) {
        const std::int64_t id = pass_.ids.at(t, layers_.taken[l], k);
        const std::int64_t expert = logical(l, id);
        if (expert < 0 || expert >= experts_) return Bad{l, t, id};
      }
    }
  }
  return std::nullopt;
}

std::optional<IdNarrower::Bad> IdNarrower::narrow(const std::vector<std::int64_t>& tokens,
                                                  const std::vector<std::uint8_t*>& rows) const {
  if (pass_.logical_of) {
    if (const auto bad = first_bad(tokens)) return bad;
  }
  const int top_k = layers_.top_k;
  bool sound = true;
  for (std::size_t first = 0; first < tokens.size(); first += block) {
    const auto some = std::span(tokens).subspan(first, std::min(block, tokens.size() - first));
    const auto done = static_cast<std::ptrdiff_t>(first) * top_k;
    for (std::size_t l = 0; l < layers_.taken.size(); ++l) {
      const std::int64_t layer = layers_.taken[l];
      const auto into = [&](auto* to) {
        if (pass_.logical_of) {
          for (const std::int64_t t : some) {
            for (int k = 0; k < top_k; ++k) {
              *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(
                  logical(l, pass_.ids.at(t, layer, k)));
            }
          }
          return true;
        }
        return with_type(pass_.ids.values(layer).type(), [&](auto zero) {
          return copy_rows<decltype(zero)>(pass_, layer, static_cast<std::size_t>(top_k), some,
                                           static_cast<std::uint64_t>(experts_), to);
        });
      };
      sound &= id_width(experts_) == 1 ? into(rows[l] + done)
                                       : into(reinterpret_cast<std::uint16_t*>(rows[l]) + done);
    }
  }
  return sound ? std::nullopt : first_bad(tokens);
}

}  // namespace moesim
