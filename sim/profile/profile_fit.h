// SPDX-License-Identifier: Apache-2.0
// What the simulator needs, fitted to a profile: kernels, hosts, links.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/linkfit/calibration_text.h"
#include "sim/profile/kernel_times.h"
#include "sim/profile/profile.h"

namespace moesim {

struct FitOptions {
  int hold_out = 4;       // every so many sizes are left out in turn
  int gpus_per_host = 8;  // of groups of ranks, to tell links inside hosts from the fabric
};

/// A link's table from the exchanges that kept it busiest.
struct LinkOfProfile {
  std::string name;  // class of the link, or what was measured: "host-all-gather-8"
  Calibrated calibrated;
  bool of_class = false;  // a class of a topology's links, which a cluster's calibration names
};

struct ProfileFit {
  KernelTables tables;
  TableErrors errors;
  int shapes = 0;
  SlowDown slowdown;
  std::map<DataType, KeptRate> kept, kept_attention;  // of the base model's rates
  Seconds per_kernel;                                 // of the host; 0: unknown
  int launches = 0;                                   // that it rests on
  std::vector<LinkOfProfile> links;
  std::vector<std::string> notes;

  bool fits_anything() const { return shapes > 0 || launches > 0 || !links.empty(); }
};

/// `gpu`: whose rates kernels keep a part of.
ProfileFit fit_profile(const Profile& profile, const GpuModel& gpu, const FitOptions& options);

/// Bytes on the busiest link and times without waiting, by link, of exchanges that no other one of
/// their rank overlaps.
std::map<std::string, std::vector<Sample>> link_samples(const Profile& profile,
                                                        const FitOptions& options);

}  // namespace moesim
