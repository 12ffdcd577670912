// SPDX-License-Identifier: Apache-2.0
// Where a mechanism's `next` (evaluate.h) puts the next holders of a row: a list to continue from,
// or only counts.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/mechanism/dispatch.h"

namespace moesim {

/// Calls visit(k) for every choice of a row, ascending.
template <class Visit>
void for_each_choice(Choices choices, Visit visit) {
  for (; choices != 0; choices &= choices - 1) visit(std::countr_zero(choices));
}

/// A copy of a token on its way: the choices it carries and the GPU it goes to next.
struct Hop {
  GpuId to;
  Choices choices = 0;
};

/// Collects the hops of one row in one phase.
template <std::size_t capacity>
class HopList {
 public:
  void add(GpuId to, Choices choices) { hops_[size_++] = {to, choices}; }
  void merge(GpuId to, Choices choices) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (hops_[i].to == to) {
        hops_[i].choices |= choices;
        return;
      }
    }
    add(to, choices);
  }
  const Hop* begin() const { return hops_.data(); }
  const Hop* end() const { return hops_.data() + size_; }

 private:
  std::array<Hop, capacity> hops_;
  std::size_t size_ = 0;
};

/// Counts the hops of a phase that no other continues: nobody asks which choices a row carries.
class HopCounter {
 public:
  explicit HopCounter(std::size_t gpus) : seen_(gpus, 0) {}
  /// A new row, whose counts go to one row of the table.
  void start(std::uint32_t* counts) {
    counts_ = counts;
    ++row_;
  }
  void add(GpuId to, Choices) { ++counts_[to.index()]; }
  void merge(GpuId to, Choices) {
    counts_[to.index()] += seen_[to.index()] != row_ ? 1 : 0;
    seen_[to.index()] = row_;
  }

 private:
  std::uint32_t* counts_ = nullptr;
  std::uint64_t row_ = 0;
  std::vector<std::uint64_t> seen_;  // per GPU the newest row that went there
};

}  // namespace moesim
