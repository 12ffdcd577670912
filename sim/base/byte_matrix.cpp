// SPDX-License-Identifier: Apache-2.0
#include "sim/base/byte_matrix.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>

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

ByteMatrix::Rows& ByteMatrix::own_rows() {
  if (rows_.use_count() > 1) rows_ = std::make_shared<Rows>(*rows_);
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
  const auto entries = row(from);
  const std::size_t place = place_of(entries, to, &Entry::to);
  return place < entries.size() && entries[place].to == to ? bytes(entries[place]) : Bytes(0);
}

Bytes ByteMatrix::total() const {
  std::int64_t units = 0;
  for (const Entry& e : rows_->entries) units += e.units;
  return Bytes(units * unit_.value);
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
  rows.entries.resize(entries());
  for (const Entry& e : rows_->entries) ++rows.start[e.to.index() + 1];
  std::partial_sum(rows.start.begin(), rows.start.end(), rows.start.begin());
  std::vector<std::size_t> next(rows.start.begin(), rows.start.end() - 1);
  for (std::size_t from = 0; from < n; ++from) {
    for (const Entry& e : row(GpuId(static_cast<std::int64_t>(from)))) {
      rows.entries[next[e.to.index()]++] = {GpuId(static_cast<std::int64_t>(from)), e.units};
    }
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
