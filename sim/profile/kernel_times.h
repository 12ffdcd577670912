// SPDX-License-Identifier: Apache-2.0
// Times of kernels of a profile by what they compute, and the tables of a GPU model through them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/model/kernel_tables.h"
#include "sim/profile/profile.h"

namespace moesim {

/// All kernels of one shape and op.
struct ShapeTimes {
  WorkShape shape;
  std::vector<double> alone, next_to;  // seconds: without an exchange on the GPU; during one

  /// The median of those without an exchange, else of the others / `slowdown`.
  Seconds time(double slowdown) const;
};

/// Kernels with a shape that exchanges overlap not at all, or for nine tenths of their time.
std::vector<ShapeTimes> shape_times(const Profile& profile);

/// How many times as long kernels take during an exchange: the median over shapes with both; 1 if
/// there are none.
struct SlowDown {
  double factor = 1;
  int shapes = 0;
};
SlowDown kernel_slowdown(const std::vector<ShapeTimes>& times);

struct TableErrors {
  int held = 0;
  double typical = 0, worst = 0;  // |predicted / measured - 1| of the sizes held out
};

/// Tables of products and of memory-bound kernels by op, with medians as points; sizes within an
/// eighth of an octave share one. Groups of different sizes get the line through their sums.
KernelTables tables_of(const std::vector<ShapeTimes>& times, double slowdown);
/// Every `every`-th size of each table is predicted by the others; the ends are not.
TableErrors held_out_errors(const std::vector<ShapeTimes>& times, double slowdown, int every);

/// The part of a GPU model's own rates that kernels of over 20 us keep, by type: medians.
struct KeptRate {
  double kept = 1;
  int shapes = 0;
};
std::map<DataType, KeptRate> kept_rates(const std::vector<ShapeTimes>& times, double slowdown,
                                        const GpuModel& gpu, bool attention);

}  // namespace moesim
