// SPDX-License-Identifier: Apache-2.0
// Steps from a file of moesim plan --save.
#pragma once

#include <memory>

#include "realhw/measure/step_source.h"

namespace moesim {

/// Throws Error as read_steps does.
std::unique_ptr<StepSource> saved_source(const std::string& path);

}  // namespace moesim
