// SPDX-License-Identifier: Apache-2.0
// What work of one kind loses on a GPU while work of another kind runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Exchanges of one GPU, which take `factor` times as long in stretches of time: of each second
/// they lose 1 - 1 / factor. Time only passes: what is asked is of now.
class LostTime {
 public:
  static constexpr Seconds never{std::numeric_limits<double>::infinity()};

  /// The factor is at least 1.
  explicit LostTime(double factor) : factor_(factor), rate_(1 - 1 / factor) {}
  /// In a stretch that begins now or later, but not before others.
  void lose(const Interval& stretch) {
    ++changes_;
    if (next_ == stretches_.size()) {
      stretches_.clear();
      next_ = 0;
    }
    if (!stretches_.empty() && stretch.start <= stretches_.back().end) {
      stretches_.back().end = std::max(stretches_.back().end, stretch.end);
    } else {
      stretches_.push_back(stretch);
    }
  }
  /// Whether there is a stretch that never ends.
  bool loses() const { return next_ < stretches_.size() && stretches_.back().end == never; }
  /// It ends now.
  void stop(Seconds now) {
    ++changes_;
    stretches_.back().end = now;
  }
  /// How often it was told of stretches: as long as they stay the same, so does end_of().
  std::uint32_t changes() const { return changes_; }
  /// Since the plan began.
  Seconds until(Seconds now) {
    while (next_ < stretches_.size() && stretches_[next_].end <= now) lost_ += lost_in_next();
    const bool inside = next_ < stretches_.size() && stretches_[next_].start < now;
    return inside ? lost_ + (now - stretches_[next_].start) * rate_ : lost_;
  }
  /// When work ends if nothing changes: `due` if it loses nothing, and until(it began) was
  /// `before`.
  Seconds end_of(Seconds due, Seconds before, Seconds now) {
    Seconds delayed = due + (until(now) - before), lost = lost_;
    for (std::size_t i = next_; i < stretches_.size() && stretches_[i].start < delayed; ++i) {
      const auto& [start, end] = stretches_[i];
      const Seconds from = std::max(start, now), its_end = from + (delayed - from) * factor_;
      if (its_end <= end) return its_end;
      lost += (end - start) * rate_;
      delayed = due + (lost - before);
    }
    return delayed;
  }

 private:
  /// In the next stretch, which is over.
  Seconds lost_in_next() {
    const auto& [start, end] = stretches_[next_++];
    return (end - start) * rate_;
  }

  double factor_, rate_;  // of each second: 1 - 1 / factor_
  Seconds lost_;          // before the next stretch
  std::vector<Interval> stretches_;
  std::size_t next_ = 0;  // of them, that has not ended
  std::uint32_t changes_ = 0;
};

}  // namespace moesim
