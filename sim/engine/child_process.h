// SPDX-License-Identifier: Apache-2.0
// Runs a function in a forked child process and hands back what it returns.
#pragma once

#include <functional>
#include <string>

namespace moesim {

/// Runs `function` in a child process and returns its result. Throws std::runtime_error: if the
/// function throws, with its message; if the child dies, with its exit status or signal.
std::string run_in_child(const std::function<std::string()>& function);

}  // namespace moesim
