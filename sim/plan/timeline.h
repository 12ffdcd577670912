// SPDX-License-Identifier: Apache-2.0
// What a backend returns: when each op ran on each of its GPUs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
/// same exchange; and how much later they are.
struct TimesOfOp {
  std::size_t first = 0;
  const Collectives* apart = nullptr;  // common to each of them; Op::apart
  std::uint32_t later = 0;             // place in the list of delays, the first of which is none
  bool common = false;
  bool later_by_member = false;

  std::size_t place(std::size_t member) const {
    if (!common) return first + member;
    return apart == nullptr ? first
                            : first + static_cast<std::size_t>(apart->of[member].collective);
  }
  std::size_t delay(std::size_t member) const { return later_by_member ? later + member : later; }
};

/// How the times of an op's members follow from what is kept.
struct TimesOfRow {
  std::size_t members = 0;
  TimesOfOp starts, starts_2, ends;  // the later one of both starts
  bool two_starts = false;
  bool own_starts = true;  // kept for this op
};

/// When an op ran on each of its GPUs.
class OpIntervals {
 public:
  OpIntervals(const Seconds* times, const Seconds* delays, const TimesOfRow& row)
      : times_(times), delays_(delays), row_(&row) {}

  std::size_t size() const { return row_->members; }
  bool empty() const { return size() == 0; }
  Interval operator[](std::size_t member) const { return {start(member), end(member)}; }
  Interval front() const { return (*this)[0]; }
  Seconds start(std::size_t member) const {
    const Seconds first = time(row_->starts, member);
    return row_->two_starts ? std::max(first, time(row_->starts_2, member)) : first;
  }
  Seconds end(std::size_t member) const { return time(row_->ends, member); }

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
  Iterator end() const { return {*this, size()}; }

 private:
  Seconds time(const TimesOfOp& times, std::size_t member) const {
    return times_[times.place(member)] + delays_[times.delay(member)];
  }

  const Seconds* times_;
  const Seconds* delays_;
  const TimesOfRow* row_;
};

/// Intervals of all ops. Times that follow from others by the nature of a plan are not kept,
/// because there are tens of millions.
class Intervals {
 public:
  using Element = Interval;
  /// What the times of an op follow from, on the same GPUs.
  struct Follows {
    OpId starts_with_end_of{-1};     // below 0: of none
    OpId and_of{-1};                 // and not before this one ends, below 0: whenever
    bool common_end = false;         // it ends for all at once, or for all of a collective apart
    const Seconds* takes = nullptr;  // ends so long after its start
    bool takes_by_member = false;
  };

  Intervals() = default;
  Intervals(std::initializer_list<std::vector<Interval>> rows) {
    for (const auto& row : rows) add_row(row);
  }
  void add_row(std::span<const Interval> row);
  void add_row(std::initializer_list<Interval> row) { add_row(std::span(row.begin(), row.size())); }
  /// Adds the ops of an empty list's plan, which must outlive it, at no time; [op] what they follow
  /// from: ops before them. Ends of two ops must not follow from what either takes.
  void add_ops(const Plan& plan, const std::vector<Follows>& follows);

  /// Ops.
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  OpIntervals operator[](std::size_t op) const {
    return {times_.data(), delays_.data(), rows_[op]};
  }
  /// Times that are kept.
  Seconds& start(std::size_t op, std::size_t member) {
    return times_[rows_[op].starts.place(member)];
  }
  Seconds& end(std::size_t op, std::size_t member) { return times_[rows_[op].ends.place(member)]; }
  bool keeps_starts(std::size_t op) const { return rows_[op].own_starts; }
  bool has_common_end(std::size_t op) const { return rows_[op].ends.common; }
  bool operator==(const Intervals& other) const;

 private:
  std::vector<TimesOfRow> rows_;  // [op]
  std::vector<Seconds> times_;
  std::vector<Seconds> delays_ = {Seconds(0)};
};

struct Timeline {
  /// [op][i]: the op's only GPU (compute), or its i-th participant (exchange).
  Intervals ops;
  Seconds makespan;
};

}  // namespace moesim
