// SPDX-License-Identifier: Apache-2.0
// Counts how often ids occur, and how many rows of ids touch each class of ids. Counts of traffic
// are made of these two, so both run at the speed of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/trace/bit_counts.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// Calls use(ids) for `count` rows from row `first` on, in the width that their ids have.
template <class Use>
void with_ids(const IdRows& rows, std::int64_t first, std::int64_t count, const Use& use) {
  const auto top_k = static_cast<std::size_t>(rows.top_k());
  const auto span_of = [&](const auto* ids) {
    return std::span(ids + static_cast<std::size_t>(first) * top_k,
                     static_cast<std::size_t>(count) * top_k);
  };
  if (rows.width() == 1) {
    use(span_of(static_cast<const std::uint8_t*>(rows.data())));
  } else {
    use(span_of(static_cast<const std::uint16_t*>(rows.data())));
  }
}

/// Counts how often ids occur, over many runs of ids.
class IdCounter {
 public:
  /// Ids are counted in tables of `ids` counts.
  explicit IdCounter(std::size_t ids) : ids_(ids) {}

  /// Adds to counts[id] how often every id occurs; ids beyond `counts` are left out. The counts are
  /// complete once finish() got them.
  template <class Id>
  void add(std::span<const Id> ids, std::span<std::uint32_t> counts);
  /// The same for `count` rows from row `first` on.
  void add(const IdRows& rows, std::int64_t first, std::int64_t count,
           std::span<std::uint32_t> counts) {
    with_ids(rows, first, count, [&](auto ids) { add(ids, counts); });
  }
  void finish(std::span<std::uint32_t> counts);

 private:
  std::size_t ids_;
  std::size_t stride_ = 0;            // ids of a lane
  std::vector<std::uint32_t> lanes_;  // [lane][id], of ids that are not yet in the counts
  bool used_ = false;                 // some are not
};

/// Adds to counts[id] how often every id occurs; ids beyond `counts` are left out.
template <class Id>
void count_ids(std::span<const Id> ids, std::span<std::uint32_t> counts) {
  IdCounter counter(counts.size());
  counter.add(ids, counts);
  counter.finish(counts);
}

/// The same for `count` rows from row `first` on.
inline void count_ids(const IdRows& rows, std::int64_t first, std::int64_t count,
                      std::span<std::uint32_t> counts) {
  with_ids(rows, first, count, [&](auto ids) { count_ids(ids, counts); });
}

/// Counts the rows that have two experts. Its own table is narrow, so that more of it stays in the
/// fastest cache.
class PairCounter {
 public:
  explicit PairCounter(std::size_t experts) : experts_(experts), newest_(experts * experts) {}

  /// Adds to pairs[a * experts + b] the rows of `top_k` ids that have expert a before expert b. Ids
  /// from `experts` on, those of dropped choices, are left out. The pairs are complete once
  /// finish() got them.
  template <class Id>
  void add(std::span<const Id> rows, int top_k, std::span<std::uint32_t> pairs);
  void finish(std::span<std::uint32_t> pairs);

 private:
  std::size_t experts_;
  std::vector<std::uint16_t> newest_;  // of rows that are not yet in the pairs
  std::size_t rows_ = 0;               // how many
};

/// Counts per class the rows that have an id of the class; a row that has several counts once.
/// Meant for many rows and few classes: start() takes time in proportion to the classified ids.
class TouchCounter {
 public:
  struct Member {
    std::uint32_t id;
    std::uint32_t of;  // its class
    bool operator==(const Member&) const = default;
  };

  /// Ids are below `ids`.
  explicit TouchCounter(std::size_t ids) : ids_(ids) {}
  /// Begins anew: `members` are of classes below `classes`, every other id is of none.
  void start(std::span<const Member> members, std::size_t classes);
  /// Begins anew with the same classes.
  void restart();
  /// Counts rows of `top_k` ids each.
  template <class Id>
  void add(std::span<const Id> rows, int top_k);
  /// Rows per class since the last start.
  std::span<const std::uint32_t> finish();

 private:
  struct Touched {
    std::uint32_t row = 0;  // the last row that touched the class
    std::uint32_t count = 0;
  };
  template <int fixed_k, class Id>
  void add_rows(std::span<const Id> rows, int top_k);
  template <int fixed_k, class Id>
  void add_bits(std::span<const Id> rows, int top_k);
  template <int fixed_k, class Id>
  void add_newest(std::span<const Id> rows, int top_k);
  bool fits_a_word() const { return classes_ <= 64; }

  std::size_t ids_;
  std::vector<std::uint32_t> members_;  // ids that have an entry below
  std::size_t classes_ = 0;
  std::vector<std::uint32_t> counts_;

  // Up to 64 classes: those of a row as bits of a word.
  std::vector<std::uint64_t> bit_of_;  // [id]
  BitCounts bits_;

  // More classes.
  std::vector<std::uint32_t> class_of_;  // [id] class + 1; of no class: 0
  std::vector<Touched> touched_;         // [class + 1]
  std::uint32_t row_ = 0;
};

}  // namespace moesim
