// SPDX-License-Identifier: Apache-2.0
// Which experts are chosen together, within a layer and from one layer to the next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/placement.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// A count for every ordered pair of experts.
class PairMatrix {
 public:
  PairMatrix() = default;
  explicit PairMatrix(int experts)
      : experts_(experts),
        counts_(static_cast<std::size_t>(experts) * static_cast<std::size_t>(experts)) {}

  int experts() const { return experts_; }
  std::int64_t& at(ExpertId a, ExpertId b) { return counts_[index(a, b)]; }
  std::int64_t at(ExpertId a, ExpertId b) const { return counts_[index(a, b)]; }
  std::span<const std::int64_t> row(ExpertId a) const {
    return {counts_.data() + index(a, ExpertId(0)), static_cast<std::size_t>(experts_)};
  }
  std::span<std::int64_t> values() { return counts_; }
  std::int64_t total() const;
  PairMatrix transposed() const;
  /// Adds another matrix of the same size.
  PairMatrix& operator+=(const PairMatrix& other);
  bool operator==(const PairMatrix&) const = default;

 private:
  std::size_t index(ExpertId a, ExpertId b) const {
    return a.index() * static_cast<std::size_t>(experts_) + b.index();
  }
  int experts_ = 0;
  std::vector<std::int64_t> counts_;
};

/// Tokens that chose both experts: symmetric, the diagonal zero. Throws Error for ids out of range.
PairMatrix co_choices(const IdRows& ids, int experts);

/// Choices (e of a layer, f of the next) over all tokens, K x K per token: rows are of the earlier
/// layer. Both layers hold the same tokens (Error); ids out of range are errors.
PairMatrix transitions(const IdRows& layer, const IdRows& next, int experts);

/// The transitions of every adjacent pair of layers of some steps, summed: layers - 1 matrices.
std::vector<PairMatrix> layer_transitions(const RoutingTrace& trace, std::span<const int> steps);

/// The GPU of every expert. Throws Error unless each of 0..experts-1 lies in exactly one slot.
std::vector<GpuId> gpu_of_experts(const SlotTable& table, int experts);

/// The opposite: slots of a GPU hold its experts in ascending order. Each GPU is in 0..gpus-1.
SlotTable table_of(std::span<const GpuId> gpu_of, int gpus);

}  // namespace moesim
