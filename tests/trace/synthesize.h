// SPDX-License-Identifier: Apache-2.0
// A synthesized trace as a whole, in memory.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sim/trace/synth/synth.h"

namespace moesim {

inline RoutingTrace all_steps(Synthesis synthesis, int count) {
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = 0; s < count; ++s) steps.push_back(synthesis.next_step());
  return {synthesis.info(), std::move(steps)};
}
inline RoutingTrace synthesize(const SynthOptions& options) {
  return all_steps(Synthesis(options), options.steps);
}
inline RoutingTrace synthesize(const SynthOptions& options, const RoutingTrace& recorded) {
  return all_steps(Synthesis(options, recorded), options.steps);
}

}  // namespace moesim
