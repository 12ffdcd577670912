// SPDX-License-Identifier: Apache-2.0
// Synthetic traces that a grid asks for, each drawn once.
#pragma once

#include <string>

#include "sim/trace/synth/synth.h"

namespace moesim {

class GridTraces {
 public:
  /// They lie in a folder, which is made for the first one.
  explicit GridTraces(std::string folder) : folder_(std::move(folder)) {}

  /// The trace's folder; another process may draw the same one at the same time.
  std::string path_of(const SynthOptions& options) const;

 private:
  std::string folder_;
};

}  // namespace moesim
