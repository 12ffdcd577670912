// SPDX-License-Identifier: Apache-2.0
// Compares the sizes that a launch states with our models.
#pragma once

#include <string>
#include <vector>

#include "sim/launched/launched.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// Sizes that differ, as "layers 48 (the launch: 32)": of the sizes that tell models apart, or of
/// the others.
std::vector<std::string> size_differences(const MoeModel& model, const Launched& launched,
                                          bool telling_apart);

/// How far the sizes that tell models apart are from each other: the sum of the logarithms of
/// their ratios.
double size_distance(const MoeModel& model, const Launched& launched);

/// Changes the model to the sizes that differ and tell no models apart. Notes each of them.
void take_sizes(const MoeModel& model, Launched& launched);

}  // namespace moesim
