// SPDX-License-Identifier: Apache-2.0
// Who sends how many bytes to whom: the traffic of one exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Sparse ranks x ranks matrix in compressed rows: bytes from a source rank to a destination rank,
/// as whole multiples of one unit (such as a token row), 8 bytes an entry. Ranks are the members of
/// a group, or all GPUs of a cluster.
/// Destinations ascend within a row, entries are > 0; the diagonal is data that stays on its GPU.
/// Copies share their entries: the exchanges of a plan that move the same rows take room once.
class ByteMatrix {
 public:
  struct Entry {
    GpuId to;
    std::uint32_t units;
    bool operator==(const Entry&) const = default;
  };

  explicit ByteMatrix(Bytes unit = Bytes(1)) : unit_(unit), rows_(no_rows()) {}
  /// From a dense row-major table of ranks x ranks bytes; the unit becomes their greatest common
  /// divisor. Throws std::overflow_error when an entry exceeds 2^32 - 1 units.
  static ByteMatrix from_dense(int ranks, std::span<const std::int64_t> bytes);
  /// Appends the row of the next source; destinations must ascend, zeros are dropped.
  void add_row(std::span<const Entry> entries);
  /// Appends the row of the next source from one count of units per destination.
  void add_dense_row(std::span<const std::uint32_t> units);

  int ranks() const { return static_cast<int>(rows_->start.size()) - 1; }
  Bytes unit() const { return unit_; }
  /// As many units as here, of another size.
  ByteMatrix with_unit(Bytes unit) const {
    ByteMatrix result = *this;
    result.unit_ = unit;
    return result;
  }
  /// Equal for matrices that share their entries and have one unit, while one of them lives.
  std::pair<const void*, Bytes> identity() const { return {rows_.get(), unit_}; }
  std::span<const Entry> row(GpuId from) const {
    const std::size_t first = rows_->start[from.index()];
    return {rows_->entries.data() + first, rows_->start[from.index() + 1] - first};
  }
  Bytes bytes(const Entry& e) const { return Bytes(unit_.value * e.units); }
  Bytes at(GpuId from, GpuId to) const;
  std::size_t entries() const { return rows_->entries.size(); }
  Bytes total() const;         // the diagonal included
  Bytes off_diagonal() const;  // what really leaves its GPU
  ByteMatrix transposed() const;
  /// The rows and columns of some ranks, ascending; itself if these are all.
  ByteMatrix among(std::span<const GpuId> ranks) const;
  bool operator==(const ByteMatrix& other) const {
    return unit_ == other.unit_ && (rows_ == other.rows_ || *rows_ == *other.rows_);
  }

 private:
  struct Rows {
    std::vector<std::size_t> start = {0};
    std::vector<Entry> entries;
    bool operator==(const Rows&) const = default;
  };
  static const std::shared_ptr<Rows>& no_rows();
  /// The counts of only this matrix, to be changed.
  Rows& own_rows();

  Bytes unit_;
  std::shared_ptr<Rows> rows_;
};

}  // namespace moesim
