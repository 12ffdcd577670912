// SPDX-License-Identifier: Apache-2.0
// What a profile says, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/profile/breakdown.h"
#include "sim/profile/read_profile.h"

namespace moesim {

/// A profile and the time of each of its ranks.
struct ProfileReport {
  explicit ProfileReport(const ReadProfile& read);

  const ReadProfile& read;
  std::vector<RankTime> ranks;
  std::vector<UnknownKernel> unknown;

  std::int64_t kernels() const;
  /// Of all ranks' GPU time.
  double recognized() const;
};

Printout profile_text(const ProfileReport& report, int most_unknown);
/// "moesim-profile" 1, in seconds and bytes.
std::string profile_json(const ProfileReport& report, const std::string& version);

}  // namespace moesim
