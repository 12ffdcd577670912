// SPDX-License-Identifier: Apache-2.0
// What a fused layer holds on a GPU, wave by wave. Rules: docs/explain.md.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Bytes of a GPU at one moment.
struct FusedBytes {
  Bytes received;  // rows that have come, or are on their way
  Bytes inner;     // between the experts' products
  Bytes results;   // of the GPU's own tokens, until they are summed

  Bytes total() const { return received + inner + results; }
  bool operator==(const FusedBytes&) const = default;
};

struct FusedWave {
  std::int64_t rows = 0;  // that the GPU's experts compute
  Seconds sent;           // its exchange begins
  Seconds begins, ends;   // products
  Seconds left;           // its results are where they belong
  FusedBytes most;        // of all waves, the fullest moment from `sent` to `ends`
};

/// A pass of a fused layer on one GPU.
struct FusedMemory {
  GpuId gpu;
  int layer = 0, microbatch = 0;
  Pass pass = Pass::forward;
  std::vector<FusedWave> waves;
  std::vector<std::pair<Seconds, FusedBytes>> moments;  // what is held from then on
  FusedBytes peak;                                      // the first of the fullest moments
};

/// [pass of a fused layer on a GPU], GPU by GPU and in the plan's order; none if no layer's
/// products wait for exchanges in waves. Rows are held from the start of their exchange until the
/// last product that reads them, what is between the products from the first to the last one. If
/// the plan has the layer's backward pass, both stay until it ends, with all outputs of the first
/// product. Results are held from the start of their exchange until the pass ends.
std::vector<FusedMemory> fused_memory(const Plan& plan, const Timeline& timeline,
                                      std::span<const GpuId> gpus);

/// For every pass the GPU that is fullest in it, the lowest of several.
std::vector<FusedMemory> fullest_fused_memory(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
