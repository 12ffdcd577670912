// SPDX-License-Identifier: Apache-2.0
// Losses of ranks at a stated rate.
#pragma once

#include <optional>

#include "sim/serving/deployment/deployment.h"
#include "sim/trace/synth/random.h"

namespace moesim {

class DrawnLosses {
 public:
  /// Keeps the reference.
  explicit DrawnLosses(const Deployment& deployment);
  /// The next one, later than all before; null without a rate.
  std::optional<RankLoss> next();

 private:
  const Deployment& deployment_;
  Random random_;
  Seconds last_{};
};

/// Parts of so many ranks in all instances of a deployment.
int parts_that_fail(const Deployment& deployment, int ranks);

}  // namespace moesim
