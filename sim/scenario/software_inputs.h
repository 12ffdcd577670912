// SPDX-License-Identifier: Apache-2.0
// What the software of an iteration changes in its GPUs, policies and transports, before what the
// scenario itself changes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/model/software.h"
#include "sim/planner/system.h"
#include "sim/scenario/scenario.h"

namespace moesim {

struct InputCache;

/// Gives every policy what carries its exchanges in this scenario; returns the files read for it,
/// by name. Changes of a transport that none has are warnings.
std::vector<InputFile> open_transports(const Scenario& scenario, std::vector<SystemSpec>& systems,
                                       std::vector<Diagnostic>& warnings, InputCache& cache);

struct InputCache;

/// What the scenario of an iteration names in `map`, or the default, with its changes; for steps
/// one that takes no time. Sets its name in the scenario; a name that nothing has is recorded in
/// `map`.
Software read_software_of(Scenario& scenario, const YamlMap& map,
                          const std::vector<Override>& flagged);

/// The software of an iteration; for steps one that changes nothing.
const Software& open_software(const Scenario& scenario, InputCache& cache);
/// The same as a file of the result, with the files that it is based on. Empty for steps.
InputFile software_file(const Scenario& scenario, InputCache& cache);

/// All changes of a GPU model in this scenario.
std::vector<Override> changes_of_gpu(const Scenario& scenario, const std::string& name,
                                     InputCache& cache);
/// All changes of a policy, by the kind of its dispatch.
std::vector<Override> changes_of_policy(const Scenario& scenario, const std::string& name,
                                        InputCache& cache);
std::vector<Override> changes_of_transport(const Scenario& scenario, const std::string& name,
                                           InputCache& cache);

}  // namespace moesim
