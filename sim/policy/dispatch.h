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

  // Of dispatches that pad, else empty: rows on the wire and rows computed, padding included.
  std::vector<std::vector<std::uint32_t>> padded_phases;
  std::vector<std::int64_t> padded_slots;

  std::size_t gpus() const { return static_cast<std::size_t>(gpu_count); }
  const std::vector<std::vector<std::uint32_t>>& on_wire() const {
    return padded_phases.empty() ? phases : padded_phases;
  }
  const std::vector<std::int64_t>& computed() const {
    return padded_slots.empty() ? slots : padded_slots;
  }
};

/// Disjoint lists of GPUs, each ascending.
using Communicators = std::vector<std::vector<GpuId>>;

/// Every run of `size` consecutive ranks.
Communicators runs_of(int gpus, int size);

/// An exchange beside the rows of a phase, such as of counts or gate weights.
struct SideExchange {
  std::string name;     // "counts", "probs"
  Bytes per_row;        // for every row of the phase, on the way that the row takes
  Bytes per_pair;       // between any two GPUs of a communicator
  bool before = false;  // the rows wait for it, and the host reads it
  Seconds host{0};      // if so, from its end until the host has read it and launched the rows
};

/// Kernels that a dispatch runs beside its exchanges.
struct LocalWork {
  bool pack = true;   // rows are gathered into a send buffer, and spread from it on the way back
  bool relay = true;  // a kernel between a phase and the one before it
  // One more copy of what is sent before the first phase, of what arrived after the last one.
  bool transpose_sent = false, transpose_arrived = false;
};

/// A way for token copies to travel. Mechanisms are defined by one pure function, from which
/// evaluate.h makes both evaluations.
class Dispatch {
 public:
  virtual ~Dispatch() = default;
  /// Phases are listed after those whose rows they send on.
  virtual int phases() const = 0;
  virtual std::string phase_name(int phase) const = 0;
  /// Who exchanges with whom in a phase: every GPU is in exactly one communicator.
  virtual const Communicators& communicators(int phase) const = 0;
  /// The phase whose rows a phase sends on; -1: it takes them from their sources.
  virtual int previous(int phase) const { return phase - 1; }
  /// Phases of different lanes may overlap.
  virtual Lane lane(int) const { return Lane::token; }
  /// What a GPU needs at least for `rows` that a phase brings it from one other, however few bytes
  /// they are: a GPU waits for its slowest sender.
  virtual Seconds minimum_time(int /*phase*/, Stage, std::int64_t /*rows*/) const {
    return Seconds(0);
  }
  virtual LocalWork local_work() const { return {}; }
  /// Bytes of one row on the wire, metadata included.
  virtual Bytes row_bytes(const MoeModel& model, Stage, Pass) const { return model.row_bytes(); }
  /// What else a phase exchanges.
  virtual std::vector<SideExchange> sides(const MoeModel&, Stage, Pass) const { return {}; }
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
