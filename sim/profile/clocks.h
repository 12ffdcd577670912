// SPDX-License-Identifier: Apache-2.0
// Clocks of ranks, aligned by the exchanges that they share: all members leave one at the same
// time.
#pragma once

#include <vector>

#include "sim/profile/profile.h"

namespace moesim {

struct ClockFit {
  int matched = 0;        // exchanges that at least two ranks show
  int unaligned = 0;      // ranks that share none with the first
  Seconds largest_shift;  // that a clock was moved by
  /// Of the ends of a shared exchange against those of its first rank, after the alignment.
  Seconds residual_median, residual_95;
};

/// The k-th exchange of a group is the same one on all of its ranks, or that of a sequence number.
/// Shifts each rank's times by the median difference of ends from a rank that is aligned, unless
/// the ranks have one clock.
ClockFit align_clocks(Profile& profile);

/// [rank][kernel] how long each exchange waited for its last member, at most its own length; all
/// empty if no exchange is shared.
std::vector<std::vector<ProfileTicks>> waits_of(const Profile& profile);

/// [rank][kernel] how long after its own end, and after all have joined, an exchange ends on its
/// last member: a rank that has all of its rows leaves before the others.
std::vector<std::vector<ProfileTicks>> lags_of(const Profile& profile);

}  // namespace moesim
