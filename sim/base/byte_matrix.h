// SPDX-License-Identifier: Apache-2.0
// Who sends how many bytes to whom: the traffic of one exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Sparse ranks x ranks matrix in compressed rows: bytes from a source GPU to a destination GPU, as
/// whole multiples of one unit (such as a token row), 8 bytes an entry.
/// Destinations ascend within a row, entries are > 0; the diagonal is data that stays on its GPU.
class ByteMatrix {
 public:
  struct Entry {
    GpuId to;
    std::uint32_t units;
    bool operator==(const Entry&) const = default;
  };

  explicit ByteMatrix(Bytes unit = Bytes(1)) : unit_(unit) {}
  /// From a dense row-major table of ranks x ranks bytes; the unit becomes their greatest common
  /// divisor. Throws std::overflow_error when an entry exceeds 2^32 - 1 units.
  static ByteMatrix from_dense(int ranks, std::span<const std::int64_t> bytes);
  /// Appends the row of the next source; destinations must ascend, zeros are dropped.
  void add_row(std::span<const Entry> entries);
  /// Appends the row of the next source from one count of units per destination.
  void add_dense_row(std::span<const std::uint32_t> units);

  int ranks() const { return static_cast<int>(row_start_.size()) - 1; }
  Bytes unit() const { return unit_; }
  std::span<const Entry> row(GpuId from) const {
    return {entries_.data() + row_start_[from.index()],
            row_start_[from.index() + 1] - row_start_[from.index()]};
  }
  Bytes bytes(const Entry& e) const { return Bytes(unit_.value * e.units); }
  Bytes at(GpuId from, GpuId to) const;
  std::size_t entries() const { return entries_.size(); }
  Bytes total() const;         // the diagonal included
  Bytes off_diagonal() const;  // what really leaves its GPU
  ByteMatrix transposed() const;
  bool operator==(const ByteMatrix&) const = default;

 private:
  Bytes unit_;
  std::vector<std::size_t> row_start_ = {0};
  std::vector<Entry> entries_;
};

}  // namespace moesim
