// SPDX-License-Identifier: Apache-2.0
// How many rows GPUs send each other, if only GPUs of one EP group do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace moesim {

/// Counts of pairs of GPUs, local copies included. GPUs come in blocks of one size, block after
/// block, and those of different blocks send each other nothing: so it grows with the GPUs, not
/// with their square. A block that is mostly zeros may be kept as its counts above zero. Copies
/// share their blocks.
class RowTable {
 public:
  RowTable() = default;
  /// One block, in which nobody sends anything.
  explicit RowTable(std::size_t gpus);
  /// One block: [from * gpus + to].
  RowTable(std::initializer_list<std::uint32_t> counts);
  /// Further GPUs, in blocks as large as its own, which are moved here: thousands of GPUs have
  /// hundreds of megabytes of them.
  void append(RowTable&& others);
  /// Keeps every block in the form that takes less room. Cells cannot be had any more.
  void compress();

  std::size_t gpus() const { return gpus_; }
  /// Equal for GPUs whose blocks are one and the same, counted once for several groups.
  const void* block_of(std::size_t gpu) const { return blocks_[gpu / block_].get(); }
  /// Whether some blocks are.
  bool repeats() const;
  /// Whether both have one and the same blocks, as copies do until they are changed.
  bool shares_blocks(const RowTable& other) const { return blocks_ == other.blocks_; }
  /// The first GPU of the block of one.
  std::size_t first(std::size_t gpu) const { return gpu / block_ * block_; }
  /// All counts of its only block, to be changed: [from * gpus + to]. Throws std::logic_error if
  /// there are several, or it is compressed.
  std::span<std::uint32_t> cells();
  /// Calls visit(to, count) for every count above zero that a GPU sends, `to` ascending.
  template <class Visit>
  void for_each(std::size_t from, Visit visit) const {
    const std::size_t begin = first(from);
    const Block& block = *blocks_[from / block_];
    if (block.is_sparse()) {
      for (const Sent& sent : block.row(from - begin)) {
        if (sent.count > 0) visit(begin + sent.to, sent.count);
      }
      return;
    }
    const std::uint32_t* const row = block.dense.data() + (from - begin) * block_;
    for (std::size_t to = 0; to < block_; ++to) {
      if (row[to] > 0) visit(begin + to, row[to]);
    }
  }
  /// All counts of a GPU's block, [from * block + to], to be kept; null if it is compressed.
  std::shared_ptr<const std::vector<std::uint32_t>> dense_block(std::size_t gpu) const {
    const auto& block = blocks_[gpu / block_];
    if (block->is_sparse()) return nullptr;
    return {block, &block->dense};
  }
  std::size_t block_size() const { return block_; }
  /// 0 for GPUs of different blocks.
  std::uint32_t at(std::size_t from, std::size_t to) const;

  /// Sets to 0 what keep(from, to) denies.
  template <class Keep>
  void keep(Keep keep) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const std::size_t begin = b * block_;
      own(b).for_each_count(block_, [&](std::size_t from, std::size_t to, std::uint32_t& count) {
        if (count > 0 && !keep(begin + from, begin + to)) count = 0;
      });
    }
  }
  /// Sets every count above zero to change(from, count).
  template <class Change>
  void update(Change change) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const std::size_t begin = b * block_;
      own(b).for_each_count(block_, [&](std::size_t from, std::size_t, std::uint32_t& count) {
        if (count > 0) count = change(begin + from, count);
      });
    }
  }
  RowTable& operator*=(std::uint32_t factor);
  /// Rows per GPU, local copies included. Kept from when they are first asked for, for all copies:
  /// what cells() gave before is not to be written any more.
  struct Sums {
    std::vector<std::int64_t> sent, arrived;
  };
  Sums sums() const;
  std::uint64_t total() const;
  /// The largest of all; 0 of none.
  std::uint32_t most() const;

  /// Counts of all pairs: [from * gpus + to].
  std::size_t size() const { return gpus_ * gpus_; }
  std::uint32_t operator[](std::size_t pair) const { return at(pair / gpus_, pair % gpus_); }
  /// Equal counts, in whatever form.
  bool operator==(const RowTable& other) const;
  bool operator==(const std::vector<std::uint32_t>& pairs) const;

 private:
  using Counts = std::vector<std::uint32_t>;
  struct Sent {
    std::uint32_t to;  // counted within the block
    std::uint32_t count;
  };
  /// One of both forms.
  struct Block {
    Counts dense;                           // [from * block + to]
    std::vector<std::uint32_t> start = {};  // [from] in sent, and one past the last; empty: dense
    std::vector<Sent> sent = {};
    std::optional<Sums> sums = {};  // of its GPUs

    bool is_sparse() const { return !start.empty(); }
    std::span<const Sent> row(std::size_t from) const {
      return {sent.data() + start[from], sent.data() + start[from + 1]};
    }
    /// Calls visit(from, to, count) for all counts that it holds, zeros among them.
    template <class Visit>
    void for_each_count(std::size_t size, Visit visit) {
      for (std::size_t from = 0; from < size; ++from) {
        if (is_sparse()) {
          for (std::uint32_t i = start[from]; i < start[from + 1]; ++i) {
            visit(from, sent[i].to, sent[i].count);
          }
          continue;
        }
        for (std::size_t to = 0; to < size; ++to) visit(from, to, dense[from * size + to]);
      }
    }
    void compress(std::size_t size);
    void add_up(std::size_t size);
  };

  /// Its own copy, to be changed.
  Block& own(std::size_t block);

  std::size_t gpus_ = 0, block_ = 0;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace moesim
