// SPDX-License-Identifier: Apache-2.0
// The GPUs that an op runs on.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/place_of.h"
#include "sim/base/types.h"

namespace moesim {

/// GPUs in ascending order. Copies share one list, because most ops of a plan run on few groups.
class Group {
 public:
  Group();
  Group(std::vector<GpuId> gpus)
      : gpus_(std::make_shared<const std::vector<GpuId>>(std::move(gpus))) {}
  Group(std::initializer_list<GpuId> gpus) : Group(std::vector<GpuId>(gpus)) {}
  /// GPUs 0 to count - 1.
  static Group first(int count) {
    std::vector<GpuId> gpus;
    for (int g = 0; g < count; ++g) gpus.emplace_back(g);
    return gpus;
  }

  std::size_t size() const { return gpus_->size(); }
  bool empty() const { return gpus_->empty(); }
  auto begin() const { return gpus_->begin(); }
  auto end() const { return gpus_->end(); }
  GpuId front() const { return gpus_->front(); }
  GpuId operator[](std::size_t member) const { return (*gpus_)[member]; }
  GpuId back() const { return gpus_->back(); }
  const std::vector<GpuId>& list() const { return *gpus_; }
  operator std::span<const GpuId>() const { return *gpus_; }

  /// All GPUs from the first to the last, as of a host or of a pipeline stage: places are
  /// differences then. Not so of nobody.
  bool has_no_gaps() const {
    return !empty() &&
           std::int64_t{back().value} - front().value == static_cast<std::int64_t>(size()) - 1;
  }
  bool contains(GpuId gpu) const { return member(gpu) < size(); }
  /// Which member a GPU is; size() if it is none.
  std::size_t member(GpuId gpu) const {
    if (empty() || gpu < front() || gpu > back()) return size();
    const std::size_t at = first_from(gpu);
    return (*this)[at] == gpu ? at : size();
  }
  /// The first member that is a GPU or one behind it; size() if there is none.
  std::size_t first_from(GpuId gpu) const { return place_of(*this, gpu); }
  /// Whether both are one list, as copies are; equal ones may be apart.
  bool shares_list(const Group& other) const { return gpus_ == other.gpus_; }
  /// Whether some GPU is in both.
  bool meets(const Group& other) const;
  bool operator==(const Group& other) const {
    return gpus_ == other.gpus_ || *gpus_ == *other.gpus_;
  }
  std::strong_ordering operator<=>(const Group& other) const {
    return gpus_ == other.gpus_ ? std::strong_ordering::equal : *gpus_ <=> *other.gpus_;
  }

 private:
  std::shared_ptr<const std::vector<GpuId>> gpus_;
};

}  // namespace moesim
