// SPDX-License-Identifier: Apache-2.0
// The manual page of a program, made of its flags, so that it cannot go out of date.
#pragma once

#include <string>

#include "sim/flags/command_info.h"

namespace moesim {

/// One page in the man macros of roff, a section per command.
std::string man_page(const CommandInfo& program, const std::string& version);

}  // namespace moesim
