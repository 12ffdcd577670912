// SPDX-License-Identifier: Apache-2.0
// Rows of experts in buffers of one shape, and what they keep in pages of one buffer
// (NVIDIA/Megatron-LM 02f11f65, paged_stash.py; pull 4247).
#pragma once

#include <cstdint>

#include "sim/base/yaml.h"

namespace moesim {

/// Graphs need shapes that do not follow from the gate. Every rank's experts have a buffer for so
/// many rows of the one layer at work; kept activations are copied from it to pages of a stash,
/// which all layers and microbatches share.
struct PagedStash {
  double rank_capacity = 1.5;  // rows of the buffer over the mean of the ranks
  double factor = 1.1;         // pages over those of the mean rows when most are kept
  std::int64_t page = 64;      // rows
  bool operator==(const PagedStash&) const = default;

  /// Rows in whole pages.
  std::int64_t paged(std::int64_t rows) const { return (rows + page - 1) / page * page; }
  /// Rows of the buffer of a rank, for this mean.
  std::int64_t buffer_rows(double mean) const;
  /// Rows of the stash, if `mean` rows of all layers and microbatches together are kept at once.
  std::int64_t stash_rows(double mean) const;
  /// Throws Unsuitable with the least `rank_capacity` that fits if the buffer has no room for
  /// `rows`.
  void check_buffer(std::int64_t rows, double mean, int layer) const;
  /// The same of `factor` and `rows` in whole pages that a stage's GPU keeps at once.
  void check_stash(std::int64_t rows, double mean, int stage) const;
};

/// `paged_stash`: {rank_capacity, factor, page}, each with its default.
PagedStash read_paged_stash(const YamlValue& value);

}  // namespace moesim
