// SPDX-License-Identifier: Apache-2.0
// The changes of a scenario's `set`: INPUT.PATH=VALUE for all inputs of a kind,
// INPUT:NAME.PATH=VALUE for one of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// The document of a scenario with changed keys; of a key below a preset's name the error says how
/// to write both.
std::unique_ptr<YamlDocument> changed_document(const std::string& text, const std::string& file,
                                               const std::vector<Override>& changes);

/// The changes under `set` of a scenario's file; its mistakes are recorded.
std::vector<Override> changes_in_file(const YamlMap& scenario);

/// Those of the flags named "set". Throws Error for a mistake.
std::vector<Override> changes_by_flags(const std::vector<Override>& flags);

/// Whether "path=null" removes a key of the scenario itself, not of an input.
bool removes_scenario_key(const std::string& change);

/// The changes of one input ("topology", "model", "gpu", "policy") that the scenario calls `name`.
/// Their paths begin at its fields: "topology:h100-rail.nodes" becomes "nodes".
std::vector<Override> changes_of(const std::vector<Override>& changes, const std::string& input,
                                 const std::string& name);

/// An error for every change of a named input that is not among `names`: the change has no effect,
/// so its name is probably misspelt.
std::vector<Diagnostic> unreached(const std::vector<Override>& changes, const std::string& input,
                                  const std::vector<std::string>& names);

/// The changes by `--set` of a command that reads only one topology, called `name`: those of a
/// scenario, and those without the input's name. Throws Error for a change of another input.
std::vector<Override> changes_of_topology(const std::vector<std::string>& set,
                                          const std::string& name);

}  // namespace moesim
