// SPDX-License-Identifier: Apache-2.0
// How tables and notes say that the cluster cannot run what was simulated.
#pragma once

#include <string>

namespace moesim {

/// "megamoe (!)" if there is a reason, else the name.
inline std::string marked(const std::string& name, const std::string& why) {
  return why.empty() ? name : name + " (!)";
}

/// The note that explains the mark; its subject is the policy.
inline std::string cannot_run_note(const std::string& why) { return "cannot run so (!): " + why; }

}  // namespace moesim
