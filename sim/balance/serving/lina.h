// SPDX-License-Identifier: Apache-2.0
// Lina's inference placement (USENIX ATC 2023, arXiv 2210.17223): devices in proportion to
// predicted load, small experts packed together. The prediction is a PathProfile's.
#pragma once

#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim::lina {

/// Devices every expert is worth: devices x its part of the predicted load (all 0: equal parts).
std::vector<double> device_shares(std::span<const double> loads, int devices);

/// The experts of every device. An expert worth a device or more gets the rounded number to itself,
/// ascending; the others share devices of capacity 1 by first-fit decreasing. Unstated by the paper
/// (ours): when devices do not suffice, replicas are withdrawn where rounding gave most, then
/// experts join the least filled device; spare devices replicate the expert with the most load per
/// copy. Throws Error without devices or experts, or when more experts than devices are worth one
/// each.
SlotTable pack(std::span<const double> shares, int devices);

/// Whether the prediction stands once the gate has spoken: the same set of the 2k most loaded
/// experts (ties: lower id); otherwise Lina plans again and waits.
bool prediction_holds(std::span<const double> predicted, std::span<const double> actual, int k);

}  // namespace moesim::lina
