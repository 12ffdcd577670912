// SPDX-License-Identifier: Apache-2.0
// Kinds of instances that can run, and the plans worth an engine's run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/kind_times.h"
#include "sim/sweep/serving_candidates.h"

namespace moesim {

struct PricedKinds {
  std::vector<ServingInstanceKind> kinds;  // that can run
  std::vector<KindTimes> times;            // of each
  std::string left_out;                    // a line for each of the others, with why

  void append(PricedKinds more);
  /// "nic" if a pool exchanges tokens by links at a data sheet's rates that other kinds have
  /// measured ones for; else empty.
  std::string by_data_sheet(const ServingPlan& plan) const;
};

/// Simulates a few passes of each, by so many processes. A kind that cannot run, or whose passes
/// `stop` ends, is left out.
PricedKinds price_kinds(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingDemand& demand,
                        int workers, const std::function<bool()>& stop);

/// The first ones of `ranked`, half of them of one pool and half of pools apart if there are both;
/// of either also the first one whose instances do nothing besides.
std::vector<RoughPlan> finalists(const std::vector<ServingInstanceKind>& kinds,
                                 const std::vector<RoughPlan>& ranked, int most);

}  // namespace moesim
