// SPDX-License-Identifier: Apache-2.0
// Pro-Prophet (Wang et al., arXiv 2411.10003): copies of loaded experts on most GPUs for one
// iteration, planned from the one before.
#pragma once

#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/owners.h"

namespace moesim {

/// What its performance model knows of a layer.
struct ProphetModel {
  Bytes input;               // one choice's row
  Bytes parameters;          // of one expert
  Bytes gradients;           // of one expert
  BytesPerSecond bandwidth;  // B, mean over the links
  double throughput = 1;     // t: choices per second in a forward
  bool overlapped = true;    // transfers hide behind experts and dense layers
  Seconds dense_forward;     // Fnec
  Seconds dense_backward;    // Bnec
};

/// When to stop, and which GPUs a copy skips.
struct ProphetOptions {
  /// alpha of max H - min H < alpha I / E; unstated in the paper, 3 in king0722/Pro-Prophet.
  double balance = 3;
  int excluded = 0;  // q: GPUs that a copied expert skips; see excludable
};

/// One expert on all GPUs but some.
struct ProphetCopy {
  ExpertId expert;
  std::vector<GpuId> excluded;  // ascending; their choices still travel to the owner
  bool operator==(const ProphetCopy&) const = default;
};

/// R and H: choices that each GPU receives from others and computes.
struct ProphetLoads {
  std::vector<std::int64_t> received;
  std::vector<std::int64_t> computed;
};

/// One iteration's plan.
struct ProphetPlan {
  std::vector<ProphetCopy> copies;
  Seconds time;                           // the model's, of this plan
  SlotTable table;                        // owners, and each copy in one more slot
  std::vector<ExpertTransfer> broadcast;  // parameters, before the forward
  std::vector<ExpertTransfer> reduce;     // gradients, after the backward; no optimizer state
};

/// R and H under copies. Throws Error unless `table` has a slot per expert and a GPU per source.
ProphetLoads prophet_loads(const LoadMatrix& loads, const SlotTable& table,
                           const std::vector<ProphetCopy>& copies);

/// T: 4 max R input / B + 3 max H / t, and s (N - q) parameters / (N B) with the same for
/// gradients, each less what hides it when overlapped: the expert and dense forward, and twice the
/// expert and the dense backward.
Seconds prophet_time(const ProphetModel& model, const ProphetLoads& loads, std::size_t copies,
                     int excluded);

/// The greedy plan: copies an expert of the GPU that computes most, to all but the q other GPUs
/// with the fewest choices for it, until loads are even or that GPU has nothing left to copy;
/// returns the prefix of least T. The paper has one expert per GPU; with several, the heaviest one
/// not copied yet (unstated). Ties: lowest id. Throws Error as prophet_loads, or when q is outside
/// 0..N-1.
ProphetPlan prophet_plan(const ProphetModel& model, const ProphetOptions& options,
                         const LoadMatrix& loads, const SlotTable& table);

/// q of the public code: 1 if every expert has a GPU without choices for it, else 0.
int excludable(const LoadMatrix& loads);

}  // namespace moesim
