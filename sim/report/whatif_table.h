// SPDX-License-Identifier: Apache-2.0
// Cases before and after a change of the cluster, side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/path_sums.h"

namespace moesim {

/// A case on one of the two clusters.
struct WhatIfSide {
  Seconds time;             // of a step or an iteration
  std::int64_t tokens = 0;  // in it
  int gpus = 0;
  PathSums path;
  std::string unsuitable = {};  // why it was not run, else empty

  bool ran() const { return unsuitable.empty(); }
};

struct WhatIfCase {
  std::vector<std::string> name;  // under whatif_names
  WhatIfSide before, after;
};
inline const std::vector<std::string> whatif_names = {"topology", "policy", "routing", "fidelity"};

/// One line per case: times, the change, and what takes most of the critical path; tokens per
/// second if GPUs have gone. Names that are the same in all cases are left out. Lines with # say
/// what was not run.
Printout whatif_table(const std::vector<WhatIfCase>& cases);

nlohmann::ordered_json whatif_json(const std::vector<WhatIfCase>& cases);

}  // namespace moesim
