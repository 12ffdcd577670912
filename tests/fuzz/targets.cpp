// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

namespace moesim::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      cluster_target,   placement_target,  grid_target,    imports_target,  json_target,
      launch_target,    log_target,        model_target,   npy_target,      papers_target,
      parquet_target,   plan_target,       profile_target, result_target,   saved_target,
      scenario_target,  sweep_file_target, system_target,  topology_target, trace_target,
      transport_target, yaml_target};
  return all;
}

}  // namespace moesim::fuzz
