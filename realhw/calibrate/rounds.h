// SPDX-License-Identifier: Apache-2.0
// Measures the plans of a calibration round-robin, several rounds of all, so that drift shows as
// spread of every plan and not as an error of some.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "realhw/calibrate/calibration_origin.h"
#include "realhw/calibrate/micro_plan.h"
#include "realhw/calibrate/times_file.h"
#include "realhw/measure/measure.h"

namespace moesim {

/// What identifies the plans, so that only times of the same ones are resumed.
std::string identity_of(const std::vector<const MicroPlan*>& plans, const RoundOptions& options);

/// Throws Error that names the file if it has times of an unknown plan or round, or of other ops
/// and runs than their plan has.
void check_times(const Times& times, const std::vector<const MicroPlan*>& plans,
                 const RoundOptions& options, const std::string& file);

/// Throws Error in the file of times that names what is not measured yet.
void check_complete(const Times& times, const std::vector<const MicroPlan*>& plans,
                    const RoundOptions& options, const std::string& file);

/// Measures what `times` lacks. All ranks call it with equal plans, options and `times`, or they
/// skip different plans. Rank 0 calls `begins` before every plan and `keep` with its times; its
/// `times` become complete. Throws
/// std::runtime_error when some bytes or numbers are wrong.
void measure_rounds(Job& job, HardwareBackend& backend, const std::vector<const MicroPlan*>& plans,
                    const ExpertShape& shape, const RoundOptions& options, Times& times,
                    const std::function<void(const std::string& plan, int round,
                                             const std::vector<Timeline>&)>& keep,
                    const std::function<void(const std::string& plan, int round)>& begins);

}  // namespace moesim
