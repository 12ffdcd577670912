// SPDX-License-Identifier: Apache-2.0
// Engines in YAML: presets of models/engine, and keys that change them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/host_model.h"
#include "sim/model/serving_batch.h"
#include "sim/serving/engine/engine_options.h"

namespace moesim {

/// What an engine takes of a GPU's memory for weights and cache: a share of all of it, or of what
/// is free once the weights and the work of a pass are there.
struct EngineMemory {
  double share = 0.9;
  bool of_free = false;
};

/// How an engine of that version is started; texts with {names} of LaunchFacts.
struct LaunchTexts {
  std::string source;           // of the flags
  std::string line;             // the command with what every layout has
  std::string spread, experts;  // several ranks of attention; experts shared out whole
  std::string prompts, decode;  // pools apart
  std::vector<std::pair<std::string, std::string>> dispatch;  // by kind of dispatch
  std::vector<std::pair<std::string, std::string>> overlaps;  // by kind of overlap
  std::string dcp, drafts;  // several GPUs share keys; drafts of multi-token prediction
  /// By "key=value" or key of a LaunchSetting: flags, with {value} and, for all ranks together,
  /// {of_ranks}.
  std::vector<std::pair<std::string, std::string>> settings;
  /// Lines of a configuration file, which the shell writes, and the flag that names it; for what
  /// has no flag.
  struct File {
    std::string flag;
    std::vector<std::string> spread, prompts, decode, drafts;
    std::vector<std::pair<std::string, std::string>> settings = {};  // lines, likewise
  } file;
};

/// A preset of models/engine.
struct EngineModel {
  std::string name, description, source;
  LaunchTexts launch;     // of files of models/engine; empty: they have none
  EngineOptions options;  // those per rank, for one rank
  /// Of a pass, all ranks together: shared evenly by the ranks; no_limit: EngineOptions::max_tokens
  /// says all.
  std::int64_t tokens_of_all_ranks = no_limit;
  double reserve_of_many_ranks = 1;  // times KvOptions::reserve if there are several ranks
  EngineMemory memory;
  OverlapFrom overlap_from;       // of passes, if they overlap
  std::optional<HostModel> host;  // of its passes without graphs; else as its software says

  /// The options for so many ranks.
  EngineOptions for_ranks(int ranks) const;
};

/// `software`: the host of its software, for what `host` does not state. Throws Error with all
/// mistakes.
EngineModel read_engine(const std::string& path, const HostModel& software = {});
/// The preset of a name, or a file.
EngineModel engine_named(const std::string& name, const HostModel& software = {});

/// Reads the keys of an engine over what `model` has. Mistakes are recorded.
void read_engine_keys(const YamlMap& map, const HostModel& software, EngineModel& model);
OverlapFrom read_overlap_from(const YamlMap& map);
RouterOptions read_router(const YamlValue& value, RouterOptions absent);

}  // namespace moesim
