// SPDX-License-Identifier: Apache-2.0
#include "sim/import/narrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

/// Tokens that are copied together. In a token-major array, a cache line can hold several layers of
/// a token. In blocks of this size a line stays in the cache until all its layers are copied;
/// otherwise it would be fetched again for each layer.
constexpr std::size_t block = 128;

/// Copies the rows of some tokens of one layer. Returns whether all ids are below `experts`.
template <class From, class To>
bool copy_rows(const RoutedPass& pass, std::int64_t layer, int top_k,
               std::span<const std::int64_t> tokens, std::uint64_t experts, To* to) {
  const auto* const from = static_cast<const char*>(pass.ids.values(layer).data());
  std::uint64_t beyond = 0;
  for (const std::int64_t t : tokens) {
    const char* row = from + pass.ids.index(t, layer, 0) * std::int64_t{sizeof(From)};
    for (int k = 0; k < top_k; ++k) {
      From id;
      std::memcpy(&id, row + static_cast<std::size_t>(k) * sizeof(From), sizeof(From));
      beyond |= static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) >= experts ? 1U : 0U;
      *to++ = static_cast<To>(id);
    }
  }
  return beyond == 0;
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
          return copy_rows<decltype(zero)>(pass_, layer, top_k, some,
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
