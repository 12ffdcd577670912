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

/// The slots of GPUs 0..gpus-1 from the GPU of every expert; a GPU holds its experts in ascending
/// order.
SlotTable table_of(std::span<const GpuId> gpu_of, int gpus);

/// For C2R (NAACL 2025): the other experts of every expert by falling co-choices, ties by lowest
/// id; the expert itself last, as the diagonal of -1 in the authors' profile puts it.
using Partners = std::vector<std::vector<ExpertId>>;
Partners c2r_partners(const PairMatrix& co);

}  // namespace moesim
