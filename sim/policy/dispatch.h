// SPDX-License-Identifier: Apache-2.0
// Dispatch mechanisms: how a token's copies travel to the GPUs of its experts, phase by phase.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/plan/assignment.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"
#include "sim/trace/batches.h"

namespace moesim {

/// One layer's tokens on their source ranks: what a dispatch is evaluated on.
struct LayerTokens {
  const Batch& batch;
  IdRows ids;  // of the whole recorded step
  const Assignment& assignment;
};

/// Rows that one layer's dispatch moves; the combine moves the same rows back.
struct RowCounts {
  int gpu_count = 0;
  std::vector<std::vector<std::uint32_t>> phases;  // [phase][from * gpus + to], with the diagonal
  std::vector<std::int64_t> slots;                 // [slot] choices that its expert computes

  std::size_t gpus() const { return static_cast<std::size_t>(gpu_count); }
};

/// Disjoint lists of GPUs, each ascending.
using Communicators = std::vector<std::vector<GpuId>>;

/// Every run of `size` consecutive ranks.
Communicators runs_of(int gpus, int size);

/// A way for token copies to travel. Mechanisms are defined by one pure function, from which
/// evaluate.h makes both evaluations.
class Dispatch {
 public:
  virtual ~Dispatch() = default;
  virtual int phases() const = 0;  // the last phase delivers every choice to its target
  virtual std::string phase_name(int phase) const = 0;
  /// Who exchanges with whom in a phase: every GPU is in exactly one communicator.
  virtual const Communicators& communicators(int phase) const = 0;
  /// Bytes of one row on the wire, metadata included.
  virtual Bytes row_bytes(const MoeModel& model, Stage, Pass) const { return model.row_bytes(); }
  /// The dispatch for one layer of a step: itself, unless it decides from the layer's routing.
  virtual const Dispatch& choose(const LayerTokens&) const { return *this; }
  /// The bulk evaluation: row counts without token lists.
  virtual RowCounts count(const LayerTokens& tokens) const = 0;
  /// The explicit evaluation: the rows of every phase, in token order; [phase][row].
  virtual std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const = 0;
};

/// What a dispatch may know when it is made; it may keep the references.
struct DispatchContext {
  const Topology& topology;
  const MoeModel& model;
  int ep = 0;  // expert-parallel degree: every run of `ep` ranks exchanges by itself
};

}  // namespace moesim
