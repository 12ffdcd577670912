// SPDX-License-Identifier: Apache-2.0
#include "sim/base/byte_matrix.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/base/id_vector.h"
#include "sim/base/place_of.h"

namespace moesim {
namespace {

/// Room for all rows once the first is known, as if the others were as long: growing by doubling
/// would touch twice the memory.
template <class Rows>
void make_room(Rows& rows, std::span<const ByteMatrix::Entry> next) {
  const std::size_t needed = rows.entries.size() + next.size();
  if (next.empty() || needed <= rows.entries.capacity()) return;
  const std::size_t done = rows.start.size();  // with the next
  const std::size_t all = std::max(done, next.back().to.index() + 1);
  const std::size_t foreseen = needed / done * all;
  rows.entries.reserve(
      std::max({needed, foreseen + foreseen / 16, rows.entries.capacity() * 3 / 2}));
}

}  // namespace

ByteMatrix ByteMatrix::from_dense(int ranks, std::span<const std::int64_t> bytes) {
  std::int64_t unit = 0;
  for (std::int64_t b : bytes) unit = std::gcd(unit, b);
  ByteMatrix matrix(Bytes(std::max<std::int64_t>(unit, 1)));
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::uint32_t> row(n);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const std::int64_t units = bytes[from * n + to] / matrix.unit_.value;
      if (units < 0 || units > std::numeric_limits<std::uint32_t>::max()) {
        throw std::overflow_error("byte matrix: an entry does not fit 32 bits of its unit");
      }
      row[to] = static_cast<std::uint32_t>(units);
    }
    matrix.add_dense_row(row);
  }
  return matrix;
}

const std::shared_ptr<ByteMatrix::Rows>& ByteMatrix::no_rows() {
  static const auto none = std::make_shared<Rows>();
  return none;
}

ByteMatrix ByteMatrix::of_counts(int ranks, std::shared_ptr<const Counts> counts, Bytes unit) {
  ByteMatrix matrix(unit);
  const auto n = static_cast<std::size_t>(ranks);
  if (counts->size() != n * n) throw std::logic_error("byte matrix: not one count for every pair");
  matrix.rows_ = std::make_shared<Rows>(Rows{.counts = std::move(counts), .dense_ranks = n});
  return matrix;
}

std::size_t ByteMatrix::Row::size() const {
  if (!dense()) return entries_.size();
  return counts_.size() - static_cast<std::size_t>(std::ranges::count(counts_, 0U));
}

std::int64_t ByteMatrix::Row::total() const {
  std::int64_t units = 0;
  for (const Entry& e : entries_) units += e.units;
  return std::accumulate(counts_.begin(), counts_.end(), units);
}

std::uint32_t ByteMatrix::Row::units(GpuId to) const {
  if (dense()) return counts_[to.index()];
  const std::size_t place = place_of(entries_, to, &Entry::to);
  return place < entries_.size() && entries_[place].to == to ? entries_[place].units : 0;
}

void ByteMatrix::Rows::append(const Row& row) {
  entries.insert(entries.end(), row.begin(), row.end());
  start.push_back(entries.size());
}

ByteMatrix::Rows& ByteMatrix::own_rows() {
  if (rows_->counts) {
    auto own = std::make_shared<Rows>();
    for (const GpuId from : ids<GpuId>(ranks())) own->append(row(from));
    rows_ = std::move(own);
  } else if (rows_.use_count() > 1) {
    rows_ = std::make_shared<Rows>(*rows_);
  }
  return *rows_;
}

void ByteMatrix::add_row(std::span<const Entry> entries) {
  Rows& rows = own_rows();
  make_room(rows, entries);
  if (std::ranges::find(entries, 0U, &Entry::units) == entries.end()) {
    rows.entries.insert(rows.entries.end(), entries.begin(), entries.end());
  } else {
    std::ranges::copy_if(entries, std::back_inserter(rows.entries),
                         [](const Entry& e) { return e.units > 0; });
  }
  rows.start.push_back(rows.entries.size());
}

void ByteMatrix::add_dense_row(std::span<const std::uint32_t> units) {
  Rows& rows = own_rows();
  for (std::size_t to = 0; to < units.size(); ++to) {
    if (units[to] > 0) rows.entries.push_back({GpuId(static_cast<std::int64_t>(to)), units[to]});
  }
  rows.start.push_back(rows.entries.size());
}

Bytes ByteMatrix::at(GpuId from, GpuId to) const {
  return Bytes(unit_.value * row(from).units(to));
}

std::size_t ByteMatrix::entries() const {
  if (!rows_->counts) return rows_->entries.size();
  std::size_t all = 0;
  for (const GpuId from : ids<GpuId>(ranks())) all += row(from).size();
  return all;
}

Bytes ByteMatrix::total() const {
  std::int64_t units = 0;
  for (const GpuId from : ids<GpuId>(ranks())) units += row(from).total();
  return Bytes(units * unit_.value);
}

bool ByteMatrix::operator==(const ByteMatrix& other) const {
  if (unit_ != other.unit_ || ranks() != other.ranks()) return false;
  if (rows_ == other.rows_) return true;
  return std::ranges::all_of(ids<GpuId>(ranks()), [&](GpuId from) {
    return std::ranges::equal(row(from), other.row(from));
  });
}

Bytes ByteMatrix::off_diagonal() const {
  Bytes sum = total();
  for (int gpu = 0; gpu < ranks(); ++gpu) sum -= at(GpuId(gpu), GpuId(gpu));
  return sum;
}

ByteMatrix ByteMatrix::transposed() const {
  const auto n = static_cast<std::size_t>(ranks());
  ByteMatrix result(unit_);
  Rows& rows = result.own_rows();
  rows.start.assign(n + 1, 0);
  for (const GpuId from : ids<GpuId>(ranks())) {
    for (const Entry& e : row(from)) ++rows.start[e.to.index() + 1];
  }
  std::partial_sum(rows.start.begin(), rows.start.end(), rows.start.begin());
  rows.entries.resize(rows.start.back());
  std::vector<std::size_t> next(rows.start.begin(), rows.start.end() - 1);
  for (const GpuId from : ids<GpuId>(ranks())) {
    for (const Entry& e : row(from)) rows.entries[next[e.to.index()]++] = {from, e.units};
  }
  return result;
}

ByteMatrix ByteMatrix::among(std::span<const GpuId> some) const {
  if (std::ssize(some) == ranks()) return *this;
  ByteMatrix result(unit_);
  std::vector<Entry> kept;
  for (const GpuId from : some) {
    kept.clear();
    auto member = some.begin();
    for (const Entry& e : row(from)) {
      member = std::lower_bound(member, some.end(), e.to);
      if (member == some.end()) break;
      if (*member == e.to) kept.push_back({GpuId(member - some.begin()), e.units});
    }
    result.add_row(kept);
  }
  return result;
}

}  // namespace moesim
