// SPDX-License-Identifier: Apache-2.0
// What every GPU holds in the course of a step. Formulas: docs/memory-of-iterations.md.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/model/parameters.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

enum class MemoryPart {
  weights,
  gradients,
  optimizer,
  placeholders,  // see gradient_placeholders
  gathered,      // expert parameters of other GPUs, and their gradients, while layers compute
  activations,   // kept for backward passes, and what delayed weight gradients wait for
  working,       // of the block at work: gradients, rows on their way, what is computed again;
                 // of the optimizer while it updates
  transfers,     // between pipeline stages: received gradients, and what is being sent
  cache,         // keys, values and states of sequences that are served
};
inline constexpr int memory_part_count = static_cast<int>(MemoryPart::cache) + 1;
const char* name_of(MemoryPart part);

/// Bytes of one GPU at one moment.
struct MemoryUse {
  std::array<Bytes, memory_part_count> parts{};

  Bytes& of(MemoryPart part) { return parts[static_cast<std::size_t>(part)]; }
  Bytes of(MemoryPart part) const { return parts[static_cast<std::size_t>(part)]; }
  Bytes total() const;
  MemoryUse& operator+=(const MemoryUse& other);
  bool operator==(const MemoryUse&) const = default;
};

/// The first of a GPU's fullest moments.
struct MemoryPeak {
  MemoryUse use;
  int stage = 0;
  bool update = false;  // while the optimizer updates, after the last turn
  int turn = -1;        // of the stage's timetable; below 0: no turn needs more than the state
  StageWork work = {};
  int layer = -1;  // at work; below 0: embedding or head
  BlockKind block = BlockKind::embedding;
  Bytes on_host = {};  // the most that waits in the memory of the host at any moment

  /// "in turn 12 of pipeline stage 0 (backward of microbatch 3, attention of layer 7)",
  /// "in the update of pipeline stage 0"
  std::string when() const;
};

/// [GPU of the plan]
using MemoryPeaks = std::vector<MemoryPeak>;

/// Memory of a step.
struct StepMemory {
  MemoryPeaks peaks;
  /// [turn of its stage, update] of the fullest GPU; empty if the step has only MoE layers.
  std::vector<MemoryUse> curve = {};
};

/// The one with most bytes; the lowest of several.
GpuId fullest(const MemoryPeaks& peaks);

/// "31.2 GB weights, 4.1 GB activations ...": parts that are not 0.
std::string text_of_parts(const MemoryUse& use);

/// Throws Unsuitable for the GPU that lacks most, saying how much and of what, and when. `layers`:
/// which MoE layers that is for, of a step that has only those; "" if it is obvious. `hint`: what
/// helps others.
void check_memory(const MemoryPeaks& peaks, const GpuModels& gpus, const std::string& policy,
                  const std::optional<std::string>& layers, const std::string& hint = "");

}  // namespace moesim
