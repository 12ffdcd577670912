// SPDX-License-Identifier: Apache-2.0
// The rows of a matrix, summed at the speed of memory: thousands of GPUs have hundreds of millions
// of entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sim/base/add_up.h"
#include "sim/base/byte_matrix.h"
#include "sim/base/place_of.h"

namespace moesim {

/// Consecutive entries of a compressed row.
class SparsePart {
 public:
  explicit SparsePart(std::span<const ByteMatrix::Entry> entries) : entries_(entries) {}
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::size_t to(std::size_t i) const { return entries_[i].to.index(); }
  const std::uint32_t* units(std::size_t i) const { return &entries_[i].units; }
  /// The place of the first entry for a member or one after it.
  std::size_t place(int member) const {
    return place_of(entries_, GpuId(member), &ByteMatrix::Entry::to);
  }
  SparsePart part(std::size_t first, std::size_t last) const {
    return SparsePart(entries_.subspan(first, last - first));
  }
  /// Whether destinations follow each other without a gap.
  bool gapless() const { return empty() || to(size() - 1) - to(0) == size() - 1; }

 private:
  std::span<const ByteMatrix::Entry> entries_;
};

/// The same of a row with a count for every member, zeros among them.
class DensePart {
 public:
  explicit DensePart(std::span<const std::uint32_t> counts, std::size_t first = 0)
      : counts_(counts), first_(first) {}
  std::size_t size() const { return counts_.size(); }
  bool empty() const { return counts_.empty(); }
  std::size_t to(std::size_t i) const { return first_ + i; }
  const std::uint32_t* units(std::size_t i) const { return &counts_[i]; }
  std::size_t place(int member) const {
    const auto at = static_cast<std::size_t>(member);
    return at < first_ ? 0 : std::min(at - first_, size());
  }
  DensePart part(std::size_t first, std::size_t last) const {
    return DensePart(counts_.subspan(first, last - first), first_ + first);
  }
  static bool gapless() { return true; }

 private:
  std::span<const std::uint32_t> counts_;
  std::size_t first_;  // member
};

/// Calls visit(part) for a whole row.
template <class Visit>
void visit_row(const ByteMatrix::Row& row, Visit visit) {
  row.dense() ? visit(DensePart(row.counts())) : visit(SparsePart(row.entries()));
}

/// Adds the units of every entry to inbound[to]; returns their sum.
template <class Part>
std::int64_t add_inbound(const Part& entries, std::int64_t* inbound) {
  if (entries.empty()) return 0;
  const auto units = [&](std::size_t i) { return entries.units(i); };
  if (entries.gapless()) {
    return add_up(entries.size(), units, inbound + entries.to(0), [](std::size_t i) { return i; });
  }
  return add_up(entries.size(), units, inbound, [&](std::size_t i) { return entries.to(i); });
}

}  // namespace moesim
