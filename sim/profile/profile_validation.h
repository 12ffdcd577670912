// SPDX-License-Identifier: Apache-2.0
// A profile next to the simulated step of a scenario: the time of a step by kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/profile/both_timelines.h"
#include "sim/profile/read_profile.h"
#include "sim/report/trace_events.h"

namespace moesim {

/// Seconds of one step, means over the ranks.
struct StepTimes {
  std::vector<double> kinds;    // [KernelKind]
  std::vector<double> exposed;  // [KernelKind], as in RankTime
  double wall = 0, work_only = 0, traffic_only = 0, both = 0, idle = 0;
  int ranks = 0, steps = 1;
  bool waits = false;   // `kinds` are without waiting for the last rank
  bool kernels = true;  // else only `wall` is known: the median of a log's iterations
};

/// A timer of the program: medians of its least and largest time over ranks, in seconds.
struct TimerTimes {
  std::string name;
  double least = 0, largest = 0;
  double simulated = 0;  // 0: nothing simulated corresponds to it
};
/// By name. `iteration` and the kernels of its optimizer are simulated, in seconds.
std::vector<TimerTimes> timer_times(const Profile& profile, double iteration, double optimizer);

/// `steps`: in the profile; 0: as it says, 1 if it says none. If waiting is known, exchanges last
/// from the last rank's start to the last one's end, as moesim-hw measures them.
StepTimes step_times(const Profile& profile, int steps);

struct ProfileValidation {
  StepTimes measured, simulated;
  BothTimelines timelines;
  std::vector<TimerTimes> timers;
  std::string scenario, policy, topology;  // what was simulated
};

Printout validation_of_profile_text(const ProfileValidation& validation);
/// "moesim-profile-validation" 1, in seconds; reports show it, with `timelines` as a picture, too.
std::string validation_of_profile_json(const ProfileValidation& validation,
                                       const std::string& version, bool timelines);

/// The kernels of a profile as "measured rank 3", after `first_process` other processes.
void add_measured(const Profile& profile, int first_process, TraceEvents& out);

}  // namespace moesim
