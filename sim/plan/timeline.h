// SPDX-License-Identifier: Apache-2.0
// What a backend returns: when each op ran on each of its GPUs.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/plan.h"

namespace moesim {

struct Interval {
  Seconds start;  // a participant's start is when it joined, so that waiting counts
  Seconds end;
  bool operator==(const Interval&) const = default;
};

/// Where a list of times has those of an op's members: of each, or one for all that are in the
/// same exchange.
struct TimesOfOp {
  std::size_t first = 0;
  bool common = false;
  const Collectives* apart = nullptr;  // common to each of them; Op::apart

  std::size_t place(std::size_t member) const {
    if (!common) return first + member;
    return apart == nullptr ? first
                            : first + static_cast<std::size_t>(apart->of[member].collective);
  }
};

/// When an op ran on each of its GPUs.
class OpIntervals {
 public:
  OpIntervals(const Seconds* times, std::size_t size, const TimesOfOp& starts,
              const TimesOfOp& ends)
      : times_(times), size_(size), starts_(starts), ends_(ends) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Interval operator[](std::size_t member) const {
    return {times_[starts_.place(member)], times_[ends_.place(member)]};
  }
  Interval front() const { return (*this)[0]; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Interval;
    using difference_type = std::ptrdiff_t;
    using pointer = const Interval*;
    using reference = Interval;
    Iterator(const OpIntervals& of, std::size_t at) : of_(&of), at_(at) {}
    Interval operator*() const { return (*of_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const OpIntervals* of_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  const Seconds* times_;
  std::size_t size_;
  TimesOfOp starts_, ends_;
};

/// Intervals of all ops. Times that are one by the nature of a plan are kept once, because there
/// are tens of millions.
class Intervals {
 public:
  using Element = Interval;
  /// What an op's times are one with.
  struct Shared {
    OpId starts_with_end_of{-1};  // on the same GPUs; below 0: of none
    bool common_end = false;      // it ends for all at once, or for all of a collective apart
  };

  Intervals() = default;
  Intervals(std::initializer_list<std::vector<Interval>> rows) {
    for (const auto& row : rows) add_row(row);
  }
  void add_row(std::span<const Interval> row);
  void add_row(std::initializer_list<Interval> row) { add_row(std::span(row.begin(), row.size())); }
  /// Adds the ops of an empty list's plan, which must outlive it, at no time; [op] `shared`.
  void add_ops(const Plan& plan, const std::vector<Shared>& shared);

  /// Ops.
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  OpIntervals operator[](std::size_t op) const {
    const Row& row = rows_[op];
    return {times_.data(), row.members, row.starts, row.ends};
  }
  Seconds& start(std::size_t op, std::size_t member) {
    return times_[rows_[op].starts.place(member)];
  }
  Seconds& end(std::size_t op, std::size_t member) { return times_[rows_[op].ends.place(member)]; }
  bool has_common_end(std::size_t op) const { return rows_[op].ends.common; }
  bool operator==(const Intervals& other) const;

 private:
  struct Row {
    std::size_t members;
    TimesOfOp starts, ends;
  };
  std::vector<Row> rows_;  // [op]
  std::vector<Seconds> times_;
};

struct Timeline {
  /// [op][i]: the op's only GPU (compute), or its i-th participant (exchange).
  Intervals ops;
  Seconds makespan;
};

}  // namespace moesim
