// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/launched/launch_file.h"

namespace moesim {

/// The YAML that an argument names: a file of that name next to that of the launch, what the script
/// writes to it ("cat > NAME << EOF"), or what it prints in its place ("<(printf ...)"). Throws
/// Error if there is none.
NamedArguments options_of(const LaunchFile& launch, const NamedArgument& argument);

}  // namespace moesim
