// SPDX-License-Identifier: Apache-2.0
// Readers of files that people hand us, as functions of bytes: libFuzzer calls them with bytes that
// it makes up (scripts/fuzz), and a test with sound files, damaged ones and past findings.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moesim::fuzz {

struct Target {
  const char* name;
  /// Reads the bytes as a file. Throws Error for what is not such a file; anything else that it
  /// throws is a finding, as are a crash, an endless loop, and memory out of proportion.
  void (*read)(std::string_view bytes);
};

/// One per file of this folder; targets.cpp has their table.
extern const Target cluster_target, grid_target, imports_target, json_target, launch_target,
    log_target, model_target, npy_target, papers_target, parquet_target, placement_target,
    plan_target, profile_target, result_target, saved_target, scenario_target, sweep_file_target,
    system_target, topology_target, trace_target, transport_target, yaml_target;

const std::vector<Target>& targets();

/// What must hold after a file was read without an Error; throws std::logic_error if it does not.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace moesim::fuzz
