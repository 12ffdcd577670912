// SPDX-License-Identifier: Apache-2.0
// What planners see of a layer's routing: choices per source rank and expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Choices (token-slots) of every source rank for every expert of one layer.
class LoadMatrix {
 public:
  LoadMatrix() = default;
  LoadMatrix(int sources, int experts)
      : sources_(sources),
        experts_(experts),
        counts_(static_cast<std::size_t>(sources) * static_cast<std::size_t>(experts)) {}

  int sources() const { return sources_; }
  int experts() const { return experts_; }
  std::int64_t& at(GpuId source, ExpertId expert) { return counts_[index(source, expert)]; }
  std::int64_t at(GpuId source, ExpertId expert) const { return counts_[index(source, expert)]; }
  std::span<const std::int64_t> row(GpuId source) const {
    return {counts_.data() + index(source, ExpertId(0)), static_cast<std::size_t>(experts_)};
  }
  /// Choices per expert over all sources.
  std::vector<std::int64_t> per_expert() const;
  /// The same as one row.
  LoadMatrix totals() const;
  /// The rows of `count` sources from `first` on.
  LoadMatrix rows(GpuId first, int count) const;
  /// Adds another matrix of the same shape.
  LoadMatrix& operator+=(const LoadMatrix& other);
  bool operator==(const LoadMatrix&) const = default;

 private:
  std::size_t index(GpuId source, ExpertId expert) const {
    return source.index() * static_cast<std::size_t>(experts_) + expert.index();
  }
  int sources_ = 0;
  int experts_ = 0;
  std::vector<std::int64_t> counts_;
};

}  // namespace moesim
