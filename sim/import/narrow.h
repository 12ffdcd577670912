// SPDX-License-Identifier: Apache-2.0
// Copies ids of any width and layout into the narrow rows of a trace, at the speed of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/import/layer_choice.h"
#include "sim/import/routed_pass.h"

namespace moesim {

class IdNarrower {
 public:
  struct Bad {
    std::size_t layer = 0;   // index among the layers taken
    std::int64_t token = 0;  // of the pass
    std::int64_t id = 0;
  };

  IdNarrower(const RoutedPass& pass, const LayerChoice& layers, int experts);
  /// Writes the ids of `tokens` to rows[l] for the l-th layer taken; ids of slots become the ids of
  /// their experts. Returns the first id that is not an expert's; nothing if there is none.
  std::optional<Bad> narrow(const std::vector<std::int64_t>& tokens,
                            const std::vector<std::uint8_t*>& rows) const;

 private:
  std::optional<Bad> first_bad(const std::vector<std::int64_t>& tokens) const;
  std::int64_t logical(std::size_t layer, std::int64_t id) const;

  const RoutedPass& pass_;
  const LayerChoice& layers_;
  int experts_;
};

}  // namespace moesim
