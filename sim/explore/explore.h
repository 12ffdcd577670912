// SPDX-License-Identifier: Apache-2.0
// The page of `moesim explore`, served until somebody ends it.
#pragma once

#include <functional>
#include <string>

#include "sim/explore/asked.h"

namespace moesim {

constexpr int explore_port = 8642;  // by default, so that shared addresses lead here

struct ExploreOptions {
  std::string version;
  GivenScenario given;
  int port = explore_port;  // 0: any that is free
  int workers = 1;
  std::function<std::string()> choices;                   // JSON of what there is to choose
  std::function<void(const std::string& address)> ready;  // the page can be opened there
};

/// Serves the page on 127.0.0.1 until the parent of this process ends. Throws Error if the port is
/// taken or the library is missing, Interrupted after SIGINT or SIGTERM.
void explore(const ExploreOptions& options);

}  // namespace moesim
