// SPDX-License-Identifier: Apache-2.0
// One rank's share of one layer while a step runs: rows on their way, and the experts of its slots.
#pragma once

#include <mutex>
#include <vector>

#include "realhw/core/expert_slot.h"
#include "realhw/core/routed_layer.h"
#include "realhw/core/row_store.h"

namespace moesim {

/// The rows of one pass.
struct PassRows {
  PassRows(int tokens, int width) : out(tokens, width), back(tokens, width) {}

  RowStore out, back;
  // Choices that this rank serves: the exchange that brings each at last (-1: none, it is here from
  // the start), and those that are here and not yet gathered.
  std::vector<OpId> brought_by;  // [choice]
  std::vector<ChoiceId> ready;
};

/// One thread may run kernels while another takes and stores rows.
class LayerState {
 public:
  /// Reads from the plan which exchanges bring what. The routing must outlive it.
  LayerState(const Plan& plan, const RoutedLayer& routing, const ExpertShape& shape, GpuId rank);
  void reset();  // before a step: sources hold their tokens

  /// Packs a row of an exchange, or stores one that arrived.
  void take(const Op& op, const RowMove& row, std::span<float> values);
  void store(OpId id, const Op& op, const RowMove& row, std::span<const float> values);
  /// Appends the rows that are ready to their slots, in the order of tokens and choices.
  void gather(Pass pass);
  /// Hands results to the way back, times the gate weight in the forward pass.
  void release(Pass pass);
  /// Runs an expert kernel of the plan on all slots. False: it is none of theirs.
  bool run_expert_kernel(const Op& op);

  const RoutedLayer& routing() const { return routing_; }
  const PassRows& rows(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
  PassRows& rows(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
  const std::vector<ExpertSlot>& slots() const { return slots_; }
  GpuId rank() const { return rank_; }

 private:
  ExpertSlot& slot_of(ChoiceId choice) {
    return slots_[static_cast<std::size_t>(routing_.slot[choice.index()].value -
                                           routing_.placement.first_slot(rank_).value)];
  }
  void start(Pass pass);

  const RoutedLayer& routing_;
  ExpertShape shape_;
  GpuId rank_;
  bool padded_ = false;
  std::mutex rows_mutex_;
  PassRows forward_, backward_;
  std::vector<ExpertSlot> slots_;
  std::vector<float> vector_;  // of one token
};

}  // namespace moesim
