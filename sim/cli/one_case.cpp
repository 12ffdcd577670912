// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/one_case.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/figures.h"

namespace moesim {

void check_one_case(const Scenario& scenario, const std::string& command) {
  const auto clusters = scenario.topologies.size(), policies = scenario.policies.size();
  if (clusters == 1 && policies == 1) return;
  std::string flags;
  if (clusters > 1) flags += " --topology " + scenario.topologies.front();
  if (policies > 1) flags += " --policy " + scenario.policies.front();
  throw Error(fmt::format("'{}' takes one topology and one policy; here are {} and {}", command,
                          counted(clusters, "topology"), counted(policies, "policy")),
              flags.empty() ? "" : "choose with " + flags.substr(1));
}

}  // namespace moesim
