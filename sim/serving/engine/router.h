// SPDX-License-Identifier: Apache-2.0
// Chooses who takes a request: among ranks of an instance, and among instances.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/serving/engine/engine_options.h"
#include "sim/trace/synth/random.h"

namespace moesim {

/// What a router sees of one of its targets.
struct TargetLoad {
  bool up = true;                         // takes requests
  std::int64_t waiting = 0, running = 0;  // requests
  std::int64_t tokens = 0;                // still to be computed, answers included
  std::int64_t cached = 0;                // leading tokens of the request that are cached
};

class Router {
 public:
  explicit Router(const RouterOptions& options);

  /// The target of a prompt of `input` tokens, the first of equal ones; -1 if none is up.
  int choose(const std::vector<TargetLoad>& targets, std::int64_t input);
  /// Whether it needs TargetLoad::cached.
  bool asks_for_cached() const { return options_.kind == RouterOptions::Kind::prefix; }

 private:
  RouterOptions options_;
  Random random_;
  std::size_t asked_ = 0;
  std::vector<std::size_t> next_;  // [front end]
};

}  // namespace moesim
