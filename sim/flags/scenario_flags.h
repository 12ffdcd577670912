// SPDX-License-Identifier: Apache-2.0
// Every key of a scenario file as a flag.
#pragma once

#include <string>
#include <vector>

#include "sim/flags/command_line.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// The scenario of a command whose input is something else: `--scenario FILE` and `--set`, where
/// `policy=laer` changes a key of the scenario and `topology.nodes=4` an input.
class NamedScenario {
 public:
  /// This object must outlive the command line.
  void add_to(CommandLine& command, const std::string& about);
  const std::string& file() const { return file_; }
  std::vector<Override> overrides() const;

 private:
  std::string file_;
  std::vector<std::string> set_;
};

/// What the flags said; flags win over the file.
class ScenarioFlags {
 public:
  /// Adds the positional SCENARIO and one flag per key. This object must outlive the command line.
  void add_to(CommandLine& command);
  Scenario read() const;
  /// What read() reads: the positional argument, and what the flags say.
  const std::string& file() const { return file_; }
  std::vector<Override> overrides() const;

 private:
  /// A flag that changes one key of the scenario; `quoted`: as text that YAML does not interpret.
  void add_text(CommandLine& command, const std::string& flag, const std::string& key, bool quoted,
                const std::string& description);
  void add_changes(CommandLine& command);
  void add_steps(CommandLine& command);
  void add_iteration(CommandLine& command);

  std::string file_;
  std::vector<std::string> topology_, policy_, fidelity_, set_, layers_, recompute_, routing_;
  std::vector<Override> flags_;  // those with one value, as they were given
};

}  // namespace moesim
