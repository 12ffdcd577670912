// SPDX-License-Identifier: Apache-2.0
// A fixed time and a size -> bandwidth table through measured times, so that
// time(bytes) = fixed + table.time(bytes).
#pragma once

#include <optional>
#include <vector>

#include "sim/linkfit/measurement.h"
#include "sim/topology/bandwidth_table.h"

namespace moesim {

struct LinkFit {
  /// A point of the table and what it rests on.
  struct Knot {
    BandwidthTable::Point point;
    int samples = 0;  // kept, of all sizes that it stands for
    double spread =
        -1;  // 95 % half-width of the median time, as a part of it; -1: one sample a size
  };
  /// Median of the kept times of a size against the fit.
  struct Residual {
    Bytes bytes;
    Seconds time;
    double error;  // fit / time - 1
  };
  Seconds fixed;
  std::optional<Seconds> fixed_spread;  // 95 % half-width; few sizes tell none
  std::vector<Knot> knots;
  std::vector<Residual> residuals;  // per size
  int samples = 0, rejected = 0;
  double line_error = 0;  // largest relative error of the best straight line through the same sizes

  BandwidthTable table() const;
  double worst() const;  // largest |error|
  /// Per knot between the first and the last: the error that the table without it makes there. The
  /// residual of a size that has a knot to itself is none by construction.
  std::vector<double> left_out() const;
  double typical() const;  // median |error|
};

/// 1. The sizes that nothing contradicts are taken with the median of their times, others from
///    `beside`, curves of other rank counts, if these tell them (sizes_of, settled).
/// 2. If a larger size takes less time, neighbouring sizes are pooled until times ascend, and
///    have the median of their pool.
/// 3. `fixed` is the intercept of the Theil-Sen line through the sizes that take up to twice as
///    long as the quickest (the smallest three at least), and no more than the quickest time.
/// 4. Sizes whose time exceeds it by a tenth give a rate; the medians within half an octave become
///    a knot, and so does, one at a time, the size that the table misses by most and by more than
///    8 %. Knots are made to ascend in time too (isotonic regression of the logarithm). Rates may
///    fall, as they do if protocols change.
/// Throws Error when fewer than two sizes give a rate.
LinkFit fit_link(const std::vector<Sample>& samples,
                 const std::vector<std::vector<Sample>>& beside = {});

}  // namespace moesim
