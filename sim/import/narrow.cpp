// SPDX-License-Identifier: Apache-2.0
#include "sim/import/narrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

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
