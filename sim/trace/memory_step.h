// SPDX-License-Identifier: Apache-2.0
// A recorded step held in memory, as importers and synthesis make it and tests write it by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Bytes per expert id on disk and in memory: 1 up to 256 experts, else 2.
constexpr int id_width(int experts) { return experts <= 256 ? 1 : 2; }

/// Expert ids in the narrowest width that holds them.
class IdArray {
 public:
  IdArray() = default;
  IdArray(int experts, std::int64_t count)
      : width_(id_width(experts)), bytes_(static_cast<std::size_t>(count * width_)) {}
  IdArray(int experts, std::span<const int> ids);
  IdArray(int experts, std::initializer_list<int> ids)
      : IdArray(experts, std::span<const int>(ids.begin(), ids.size())) {}

  int width() const { return width_; }
  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size()) / width_; }
  void set(std::int64_t i, int id);
  const std::uint8_t* data() const { return bytes_.data(); }

 private:
  int width_ = 1;
  std::vector<std::uint8_t> bytes_;
};

/// The arrays of one step; tokens of one sequence are contiguous and in order.
struct StepArrays {
  std::int64_t number = 0;
  IdArray ids;                                 // [layers][tokens][top_k]
  std::vector<std::int32_t> sequence_lengths;  // sums to tokens
  std::vector<float> weights;                  // as ids, or empty
  std::vector<std::int32_t> source_ranks;      // [tokens], or empty
};

/// Throws std::invalid_argument when the sizes of the arrays do not fit each other and `info`.
std::shared_ptr<const TraceStep> make_step(const TraceInfo& info, StepArrays arrays);

}  // namespace moesim
