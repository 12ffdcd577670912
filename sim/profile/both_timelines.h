// SPDX-License-Identifier: Apache-2.0
// One step of one rank, measured and simulated, as lanes of a picture.
#pragma once

#include <string>
#include <vector>

#include "sim/profile/profile.h"

namespace moesim {

struct ProfileBar {
  ProfileTicks start = 0, waiting = 0, length = 0;  // `start`: from the step's first kernel on
  KernelKind kind = KernelKind::unknown;
};

/// The kernels of one stream, by start.
struct ProfileLane {
  bool measured = false;
  std::string stream;
  std::vector<ProfileBar> bars;
};

struct BothTimelines {
  int measured_rank = 0, simulated_rank = 0;
  std::vector<ProfileLane> lanes;  // measured ones first, as the ranks have their streams
  ProfileTicks length = 0;         // until the last kernel of both ends
  std::int64_t left_out = 0;       // kernels: the shortest ones, of a step with very many
};

/// Of the lowest rank that both have, else the first of each. `steps`: in the measured profile,
/// for one that does not say where its steps begin.
BothTimelines both_timelines(const Profile& measured, const Profile& simulated, int steps);

}  // namespace moesim
