// SPDX-License-Identifier: Apache-2.0
// Who sends how many bytes to whom: the traffic of one exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// A ranks x ranks matrix: bytes from a source rank to a destination rank, as whole multiples of
/// one unit (such as a token row). Ranks are the members of a group, or all GPUs of a cluster.
/// Either its rows are compressed, 8 bytes an entry, or there is a count of 4 bytes for every pair.
/// Destinations ascend within a row, entries are > 0; the diagonal is data that stays on its GPU.
/// Copies share their entries: the exchanges of a plan that move the same rows take room once.
class ByteMatrix {
 public:
  struct Entry {
    GpuId to;
    std::uint32_t units;
    bool operator==(const Entry&) const = default;
  };
  using Counts = std::vector<std::uint32_t>;

  /// The entries of one source, dense or compressed.
  class Row {
   public:
    explicit Row(std::span<const Entry> entries) : entries_(entries) {}
    explicit Row(std::span<const std::uint32_t> counts) : counts_(counts) {}

    class Iterator {
     public:
      using value_type = Entry;
      using difference_type = std::ptrdiff_t;
      using reference = Entry;
      using pointer = void;
      using iterator_category = std::input_iterator_tag;
      using iterator_concept = std::forward_iterator_tag;
      Iterator() = default;
      Iterator(const Row& row, std::size_t place)
          : entries_(row.entries_.data()),
            counts_(row.counts_.data()),
            place_(place),
            end_(row.counts_.size()) {
        skip_zeros();
      }
      Entry operator*() const {
        if (counts_ == nullptr) return entries_[place_];
        return {GpuId(static_cast<std::int64_t>(place_)), counts_[place_]};
      }
      Iterator& operator++() {
        ++place_;
        skip_zeros();
        return *this;
      }
      Iterator operator++(int) {
        const Iterator before = *this;
        ++*this;
        return before;
      }
      bool operator==(const Iterator& other) const { return place_ == other.place_; }

     private:
      void skip_zeros() {
        while (place_ < end_ && counts_[place_] == 0) ++place_;
      }
      const Entry* entries_ = nullptr;
      const std::uint32_t* counts_ = nullptr;  // null: of a compressed row
      std::size_t place_ = 0, end_ = 0;        // the end of counts
    };
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, dense() ? counts_.size() : entries_.size()}; }
    bool empty() const { return begin() == end(); }
    Entry front() const { return *begin(); }
    std::size_t size() const;
    std::int64_t total() const;  // units
    /// Those for a destination; 0 if there is no entry.
    std::uint32_t units(GpuId to) const;
    bool dense() const { return counts_.data() != nullptr; }
    std::span<const Entry> entries() const { return entries_; }        // none if it is dense
    std::span<const std::uint32_t> counts() const { return counts_; }  // if it is: [to]

   private:
    std::span<const Entry> entries_;
    std::span<const std::uint32_t> counts_;
  };

  explicit ByteMatrix(Bytes unit = Bytes(1)) : unit_(unit), rows_(no_rows()) {}
  /// From a dense row-major table of ranks x ranks bytes; the unit becomes their greatest common
  /// divisor. Throws std::overflow_error when an entry exceeds 2^32 - 1 units.
  static ByteMatrix from_dense(int ranks, std::span<const std::int64_t> bytes);
  /// Shares `counts` with its owner: units of every pair, [from * ranks + to].
  static ByteMatrix of_counts(int ranks, std::shared_ptr<const Counts> counts, Bytes unit);
  /// Appends the row of the next source; destinations must ascend, zeros are dropped.
  void add_row(std::span<const Entry> entries);
  /// Appends the row of the next source from one count of units per destination.
  void add_dense_row(std::span<const std::uint32_t> units);

  int ranks() const { return rows_->ranks(); }
  Bytes unit() const { return unit_; }
  /// The same units, each of another size.
  ByteMatrix with_unit(Bytes unit) const {
    ByteMatrix result = *this;
    result.unit_ = unit;
    return result;
  }
  /// Equal for matrices that share their entries and have one unit, while one of them lives.
  std::pair<const void*, Bytes> identity() const { return {rows_.get(), unit_}; }
  Row row(GpuId from) const { return rows_->row(from); }
  Bytes bytes(const Entry& e) const { return Bytes(unit_.value * e.units); }
  Bytes at(GpuId from, GpuId to) const;
  std::size_t entries() const;
  Bytes total() const;         // the diagonal included
  Bytes off_diagonal() const;  // what really leaves its GPU
  ByteMatrix transposed() const;
  /// The rows and columns of some ranks, ascending; itself if these are all.
  ByteMatrix among(std::span<const GpuId> ranks) const;
  bool operator==(const ByteMatrix& other) const;

 private:
  /// Compressed, or dense if `counts` is set.
  struct Rows {
    std::vector<std::size_t> start = {0};  // [from] in entries, and one past the last
    std::vector<Entry> entries = {};
    std::shared_ptr<const Counts> counts = nullptr;
    std::size_t dense_ranks = 0;

    int ranks() const { return static_cast<int>(counts ? dense_ranks : start.size() - 1); }
    Row row(GpuId from) const {
      if (counts) return Row(std::span(*counts).subspan(from.index() * dense_ranks, dense_ranks));
      const std::size_t first = start[from.index()];
      return Row(std::span(entries).subspan(first, start[from.index() + 1] - first));
    }
    void append(const Row& row);
  };
  static const std::shared_ptr<Rows>& no_rows();
  /// Compressed rows of only this matrix, to be changed.
  Rows& own_rows();

  Bytes unit_;
  std::shared_ptr<Rows> rows_;
};

}  // namespace moesim
