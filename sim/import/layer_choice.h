// SPDX-License-Identifier: Apache-2.0
// Which layers of a recording are MoE layers of the model, and which of its columns are choices.
// Copies ids of any width and layout into the narrow rows of a trace, at the speed of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/import/importer.h"
#include "sim/import/routed_pass.h"

namespace moesim {

/// Same for all passes of an import.
struct LayerChoice {
  std::vector<std::int64_t> taken;  // layers of the recording, in the order of the trace
  std::vector<int> numbers;         // their numbers in the model
  std::vector<std::int64_t> dense;  // layers of the recording that the model has no experts in
  std::int64_t mtp = 0;             // last layers of the recording: of multi-token prediction
  int top_k = 0;
};

/// Layers that the files number, or flags do, or that are as many as the model's MoE layers, or as
/// all its layers. Throws Error if none of it tells.
LayerChoice choose_layers(const RoutedPass& pass, const ImportOptions& options);

/// A model's dense layers hold zeros, or -1; columns beyond top-k hold -1. Throws Error if some of
/// the tokens hold anything else.
void check_left_out(const RoutedPass& pass, const LayerChoice& choice, std::int64_t first,
                    std::int64_t tokens);

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
