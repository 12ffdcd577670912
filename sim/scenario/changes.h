// SPDX-License-Identifier: Apache-2.0
// The changes of a scenario's `set`: INPUT.PATH=VALUE for all inputs of a kind,
// INPUT:NAME.PATH=VALUE for one of them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// The changes under `set` of a scenario's file; its mistakes are recorded.
std::vector<Override> changes_in_file(const YamlMap& scenario);

/// Those of the flags named "set". Throws Error for a mistake.
std::vector<Override> changes_by_flags(const std::vector<Override>& flags);

/// What changes the fields of the input ("topology", "model", "gpu", "policy") that the scenario
/// calls `name`, with all before the field's path taken off.
std::vector<Override> changes_of(const std::vector<Override>& changes, const std::string& input,
                                 const std::string& name);

/// An error for every change of one input of a kind that is none of `names`: it has no effect.
std::vector<Diagnostic> unreached(const std::vector<Override>& changes, const std::string& input,
                                  const std::vector<std::string>& names);

}  // namespace moesim
