// SPDX-License-Identifier: Apache-2.0
// Loads of a layer by the choices of the layer before, and by what followed such choices earlier.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/path_profile.h"
#include "sim/mechanism/placer.h"

namespace moesim {

/// Profiles the choices of all EP groups together.
class AdjacentLayers {
 public:
  AdjacentLayers(int layers, int experts);
  /// Of every layer of a step in order, once it has been decided on.
  void observe(const LayerRoutingNow& now);
  /// Choices per expert expected of a layer, if the layer before has those; 0 before the profile
  /// has a step.
  std::vector<double> expect(int layer, std::span<const double> before) const {
    return expect_after(profiles_[static_cast<std::size_t>(layer)], before);
  }

 private:
  using Chosen = std::vector<std::vector<ExpertId>>;  // [token] over all ranks
  Chosen chosen(const LayerRoutingNow& now) const;

  int experts_;
  std::vector<PathProfile> profiles_;  // [layer]
  int layer_ = -1;                     // that was observed last
  Chosen before_;                      // in it
};

}  // namespace moesim
