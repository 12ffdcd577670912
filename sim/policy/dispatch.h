// SPDX-License-Identifier: Apache-2.0
// Dispatch mechanisms: how a token's copies travel to the GPUs of its experts, phase by phase.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/plan/assignment.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"
#include "sim/trace/batches.h"

namespace moesim {

/// A copy of a token on its way: the choices it carries and the GPU it goes to next.
struct Hop {
  GpuId to;
  Choices choices = 0;
};

/// Hops of one row in one phase; a fixed buffer, since a row has at most one hop per choice.
class Hops {
 public:
  void clear() { size_ = 0; }
  void add(GpuId to, Choices choices) { hops_[size_++] = {to, choices}; }
  /// Adds to the hop that already goes there, else a new one: one copy per destination.
  void merge(GpuId to, Choices choices) {
    for (int i = 0; i < size_; ++i) {
      if (hops_[i].to == to) {
        hops_[i].choices |= choices;
        return;
      }
    }
    add(to, choices);
  }
  const Hop* begin() const { return hops_; }
  const Hop* end() const { return hops_ + size_; }
  int size() const { return size_; }

 private:
  Hop hops_[max_top_k];
  int size_ = 0;
};

/// One layer's tokens on their source ranks: what a dispatch is evaluated on.
struct LayerTokens {
  const Batch& batch;
  IdRows ids;  // of the whole recorded step
  const Assignment& assignment;
};

/// Rows that one layer's dispatch moves; the combine moves the same rows back.
struct RowCounts {
  std::vector<std::vector<std::uint32_t>>
      phases;                       // [phase][from * gpus + to], the diagonal included
  std::vector<std::int64_t> slots;  // [slot] choices that its expert computes
};

/// A mechanism is a pure function from (token, current holder, targets) to the next holders of each
/// phase: `void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops)
/// const`, where target[k] is the GPU that serves choice k and a hop to the holder itself is a
/// local copy. `Evaluated<Mechanism>` (evaluate.h) turns that one definition into both evaluations.
class Dispatch {
 public:
  virtual ~Dispatch() = default;
  virtual int phases() const = 0;  // the last phase delivers every choice to its target
  virtual std::string phase_name(int phase) const = 0;
  /// The bulk evaluation: row counts without token lists.
  virtual RowCounts count(const LayerTokens& tokens) const = 0;
  /// The explicit evaluation: the rows of every phase, in token order; [phase][row].
  virtual std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const = 0;
};

/// What a dispatch may know when it is made.
struct DispatchContext {
  const Topology& topology;
};

}  // namespace moesim
