// SPDX-License-Identifier: Apache-2.0
// What programs print that does not describe how a cluster is joined.
#pragma once

#include <string>

namespace moesim {

/// Throws Error that says what to give instead if a text is of one of them.
void refuse_other_outputs(const std::string& text, const std::string& name);

}  // namespace moesim
