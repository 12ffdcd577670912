// SPDX-License-Identifier: Apache-2.0
// Runs a function in a forked child process and hands back what it returns.
#pragma once

#include <functional>
#include <string>

namespace moesim {

/// Throws std::runtime_error with the function's message when it throws, and with the child's exit
/// status or signal when it dies.
std::string run_in_child(const std::function<std::string()>& function);

}  // namespace moesim
