// SPDX-License-Identifier: Apache-2.0
// Which placements keep less of the experts than others.
#pragma once

#include <string>

namespace moesim {

/// Whether an EP group may keep less than the whole state of its experts, of a placement by its
/// name in the table: it shares them among all groups, or compresses them.
bool divides_experts(const std::string& placement);

}  // namespace moesim
