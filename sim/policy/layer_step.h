// SPDX-License-Identifier: Apache-2.0
// The layer and pass that LayerOps adds ops for.
#pragma once

#include <string>

#include "sim/policy/layer_ops.h"

namespace moesim {

struct LayerOps::Step {
  int layer;  // index
  const LayerWork& work;
  const LayerSums& sums;
  Pass pass;
  std::string suffix() const { return pass == Pass::backward ? "-grad" : ""; }
};

}  // namespace moesim
