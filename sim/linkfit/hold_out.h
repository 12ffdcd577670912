// SPDX-License-Identifier: Apache-2.0
// How well a fit predicts sizes that it has not seen. Residuals of a table with a point at every
// size are zero and say nothing.
#pragma once

#include <vector>

#include "sim/linkfit/measurement.h"

namespace moesim {

struct HoldOut {
  struct Size {
    Bytes bytes;
    Seconds time;       // median of its times
    double error;       // time of the fit without this size / `time` - 1
    double apart;       // its slowest time / its quickest - 1
    bool contradicted;  // by its own times or by a larger size (sizes_of): no curve is near all
  };
  int every = 0;
  std::vector<Size> sizes;  // ascending

  /// Of |error|, over the sizes that nothing contradicts, or over all; 0 if there are none.
  double typical(bool all) const;
  double worst(bool all) const;
  int sound() const;  // how many nothing contradicts
};

/// Predicts each size but the smallest and the largest by a fit without any of its times. There are
/// `every` (>= 2) fits; the k-th sees all sizes but the k-th, (k + every)-th ... in order. `beside`
/// is as in fit_link and stays whole. Throws Error when there are fewer than three sizes or a fit
/// has too few.
HoldOut hold_out(const std::vector<Sample>& samples, const std::vector<std::vector<Sample>>& beside,
                 int every);

}  // namespace moesim
