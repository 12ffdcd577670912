// SPDX-License-Identifier: Apache-2.0
// Dispatch mechanisms: how a token's copies travel to the GPUs of its experts, phase by phase.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

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

/// A pure function from (token, current holder, targets) to the next holders of each phase. It is
/// evaluated in bulk to byte matrices and, on request, to explicit rows; combine mirrors it.
class Dispatch {
 public:
  virtual ~Dispatch() = default;
  /// Number of phases; the last one delivers every choice to its target GPU.
  virtual int phases() const = 0;
  virtual std::string phase_name(int phase) const = 0;
  /// Hops of a row at `holder` that carries `choices`; target[k] is the GPU that serves choice k.
  /// A hop to the holder itself is a local copy.
  virtual void next(int phase, GpuId holder, Choices choices, const GpuId* target,
                    Hops& hops) const = 0;
};

/// What a dispatch may know when it is made.
struct DispatchContext {
  const Topology& topology;
};

using DispatchFactory = std::unique_ptr<Dispatch> (*)(const DispatchContext&);

}  // namespace moesim
