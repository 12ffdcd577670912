// SPDX-License-Identifier: Apache-2.0
// Apart from what reads results: machines without YAML write them.
#include "sim/base/files.h"
#include "sim/plan/text.h"
#include "sim/report/hardware_result.h"

namespace moesim {

std::string hash_of_plan(const Plan& plan) {
  Plan bare = plan;
  for (Op& op : bare.ops) {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) exchange->rows.clear();
  }
  return hash_of(to_text(bare));
}

}  // namespace moesim
