// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/row_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/base/add_up.h"

namespace moesim {
namespace {

/// Cells of blocks that have been compressed, for the next ones: memory that nobody has touched
/// takes longer to get than to count.
std::vector<std::vector<std::uint32_t>>& spare_cells() {
  static thread_local std::vector<std::vector<std::uint32_t>> spare;
  return spare;
}

constexpr std::size_t most_spare = 64, most_spare_cells = 1 << 20;

std::vector<std::uint32_t> zeros(std::size_t cells) {
  auto& spare = spare_cells();
  if (spare.empty() || spare.back().size() != cells) return std::vector<std::uint32_t>(cells);
  std::vector<std::uint32_t> result = std::move(spare.back());
  spare.pop_back();
  std::ranges::fill(result, 0U);
  return result;
}

void spare(std::vector<std::uint32_t> cells) {
  if (cells.size() > most_spare_cells) return;
  auto& all = spare_cells();
  if (all.size() == most_spare) all.clear();
  all.push_back(std::move(cells));
}

/// Calls visit(place) for every count above zero. Most are zeros, which are passed over in blocks.
template <class Visit>
void for_each_above_zero(std::span<const std::uint32_t> counts, Visit visit) {
  constexpr std::size_t words = 4, block = 2 * words;
  std::size_t place = 0;
  for (; place + block <= counts.size(); place += block) {
    std::array<std::uint64_t, words> pairs;
    std::memcpy(pairs.data(), &counts[place], sizeof pairs);
    if ((pairs[0] | pairs[1] | pairs[2] | pairs[3]) == 0) continue;
    for (std::size_t i = place; i < place + block; ++i) {
      if (counts[i] > 0) visit(i);
    }
  }
  for (; place < counts.size(); ++place) {
    if (counts[place] > 0) visit(place);
  }
}

}  // namespace

RowTable::RowTable(std::size_t gpus) : gpus_(gpus), block_(gpus) {
  blocks_.push_back(std::make_shared<Block>(Block{zeros(gpus * gpus)}));
}

RowTable::RowTable(std::initializer_list<std::uint32_t> counts) {
  while (gpus_ * gpus_ < counts.size()) ++gpus_;
  block_ = gpus_;
  blocks_.push_back(std::make_shared<Block>(Block{counts}));
}

RowTable::Block& RowTable::own(std::size_t block) {
  auto& shared = blocks_[block];
  if (shared.use_count() > 1) shared = std::make_shared<Block>(*shared);
  shared->sums.reset();
  return *shared;
}

void RowTable::Block::compress(std::size_t size) {
  if (is_sparse()) return;
  const std::span<const std::uint32_t> cells(dense);
  // So many take as much room compressed.
  const std::size_t room = dense.size() * sizeof(std::uint32_t);
  const std::size_t starts = (size + 1) * sizeof(std::uint32_t);
  std::size_t held = 0;
  for (std::size_t from = 0; from < size; ++from) {
    for_each_above_zero(cells.subspan(from * size, size), [&](std::size_t) { ++held; });
    if (held * sizeof(Sent) + starts >= room) return;
  }
  if (held > std::numeric_limits<std::uint32_t>::max()) return;
  sent.reserve(held);
  start.reserve(size + 1);
  start.push_back(0);
  for (std::size_t from = 0; from < size; ++from) {
    const auto row = cells.subspan(from * size, size);
    for_each_above_zero(row, [&](std::size_t to) {
      sent.push_back({static_cast<std::uint32_t>(to), row[to]});
    });
    start.push_back(static_cast<std::uint32_t>(sent.size()));
  }
  spare(std::exchange(dense, {}));
}

void RowTable::append(RowTable&& others) {
  if (gpus_ == 0) block_ = others.block_;
  if (block_ != others.block_) throw std::logic_error("blocks of rows that differ in size");
  gpus_ += others.gpus_;
  std::ranges::move(others.blocks_, std::back_inserter(blocks_));
}

void RowTable::compress() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (!blocks_[b]->is_sparse()) own(b).compress(block_);
  }
}

std::span<std::uint32_t> RowTable::cells() {
  if (blocks_.size() != 1 || blocks_[0]->is_sparse()) {
    throw std::logic_error("cells of rows that are several blocks, or compressed");
  }
  return own(0).dense;
}

std::uint32_t RowTable::at(std::size_t from, std::size_t to) const {
  const std::size_t begin = first(from);
  if (to < begin || to >= begin + block_) return 0;
  const Block& block = *blocks_[from / block_];
  if (!block.is_sparse()) return block.dense[(from - begin) * block_ + to - begin];
  const auto row = block.row(from - begin);
  const auto sent = std::ranges::lower_bound(row, to - begin, {}, &Sent::to);
  return sent != row.end() && sent->to == to - begin ? sent->count : 0;
}

bool RowTable::repeats() const {
  std::vector<const void*> blocks;
  for (const auto& block : blocks_) blocks.push_back(block.get());
  std::ranges::sort(blocks);
  return std::ranges::adjacent_find(blocks) != blocks.end();
}

RowTable& RowTable::operator*=(std::uint32_t factor) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    own(b).for_each_count(block_,
                          [&](std::size_t, std::size_t, std::uint32_t& count) { count *= factor; });
  }
  return *this;
}

void RowTable::Block::add_up(std::size_t size) {
  Sums& of = sums.emplace();
  of.sent.reserve(size);
  of.arrived.resize(size);
  for (std::size_t from = 0; from < size; ++from) {
    if (is_sparse()) {
      const auto entries = row(from);
      of.sent.push_back(moesim::add_up(
          entries.size(), [&](std::size_t i) { return &entries[i].count; }, of.arrived.data(),
          [&](std::size_t i) { return entries[i].to; }));
    } else {
      const std::uint32_t* const counts = dense.data() + from * size;
      of.sent.push_back(moesim::add_up(
          size, [=](std::size_t i) { return counts + i; }, of.arrived.data(),
          [](std::size_t i) { return i; }));
    }
  }
}

RowTable::Sums RowTable::sums() const {
  Sums all;
  for (const auto& block : blocks_) {
    if (!block->sums) block->add_up(block_);
    std::ranges::copy(block->sums->sent, std::back_inserter(all.sent));
    std::ranges::copy(block->sums->arrived, std::back_inserter(all.arrived));
  }
  return all;
}

std::uint64_t RowTable::total() const {
  const Sums all = sums();
  return static_cast<std::uint64_t>(
      std::accumulate(all.sent.begin(), all.sent.end(), std::int64_t{0}));
}

std::uint32_t RowTable::most() const {
  std::uint32_t most = 0;
  for (const auto& block : blocks_) {
    for (const std::uint32_t count : block->dense) most = std::max(most, count);
    for (const Sent& sent : block->sent) most = std::max(most, sent.count);
  }
  return most;
}

bool RowTable::operator==(const RowTable& other) const {
  if (gpus_ != other.gpus_ || block_ != other.block_) return false;
  std::vector<std::pair<std::size_t, std::uint32_t>> here, there;
  for (std::size_t from = 0; from < gpus_; ++from) {
    here.clear();
    there.clear();
    for_each(from, [&](std::size_t to, std::uint32_t count) { here.emplace_back(to, count); });
    other.for_each(from, [&](std::size_t to, std::uint32_t n) { there.emplace_back(to, n); });
    if (here != there) return false;
  }
  return true;
}

bool RowTable::operator==(const std::vector<std::uint32_t>& pairs) const {
  if (pairs.size() != size()) return false;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if ((*this)[i] != pairs[i]) return false;
  }
  return true;
}

}  // namespace moesim
