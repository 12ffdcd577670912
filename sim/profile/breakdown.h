// SPDX-License-Identifier: Apache-2.0
// Where a GPU's time goes: by kind of kernel and by stream, exposed and overlapped, waiting, idle.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/profile/profile.h"

namespace moesim {

/// - work: kernels that are not exchanges; traffic: exchanges.
/// - wall time = work only + traffic only + both + idle.
struct RankTime {
  struct Kind {
    std::int64_t kernels = 0;
    ProfileTicks time = 0;  // sum of the kernels' times
    /// Wall time without the other sort (work or traffic); kernels at the same time share it, so
    /// that kinds add up to the wall time.
    double exposed = 0;
    /// The part of `time` during which the other sort runs, too.
    ProfileTicks overlapped = 0;
    ProfileTicks waiting = 0;  // of exchanges: until the last rank joined; if `waiting_known`
  };
  struct StreamTime {
    std::string name;
    std::int64_t kernels = 0;
    ProfileTicks busy = 0, traffic = 0;  // of all kernels; of exchanges
  };
  std::array<Kind, kernel_kind_count> kinds;
  std::vector<StreamTime> streams;
  ProfileTicks wall = 0, work_only = 0, traffic_only = 0, both = 0, idle = 0;
  ProfileTicks host = 0;  // the part of `idle` before the next kernel was launched
  bool launches_known = false, waiting_known = false;
  std::int64_t kernels = 0;
  std::vector<ProfileTicks> steps;  // lengths

  ProfileTicks time() const;        // of all kernels
  ProfileTicks recognized() const;  // of those whose kind is known
};

/// From the first kernel to the end of the last one. `waiting` as waits_of() gives it; empty: none
/// is known.
RankTime breakdown(const ProfiledRank& rank, const std::vector<ProfileTicks>& waiting = {});

/// Kernels that no row of the table fits, by their time.
struct UnknownKernel {
  std::string name;
  std::int64_t kernels = 0;
  ProfileTicks time = 0;
};
std::vector<UnknownKernel> unknown_kernels(const Profile& profile);

}  // namespace moesim
