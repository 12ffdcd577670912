// SPDX-License-Identifier: Apache-2.0
// Child processes that never outlive what started them.
#pragma once

#include <sys/types.h>

namespace moesim {

/// fork(), with the child bound to the thread that calls: when that ends, for whatever reason, the
/// kernel kills the child. Returns as fork() does; flush what is buffered before.
pid_t fork_bound();

}  // namespace moesim
