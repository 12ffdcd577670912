// SPDX-License-Identifier: Apache-2.0
// How much of a thing a file may claim, if several readers must agree.
#pragma once

namespace moesim {

/// Experts of a layer: ids take two bytes, and their last value marks a dropped choice
/// (IdRows::dropped).
inline constexpr int max_experts = 65'535;

/// The number of a layer of a model.
inline constexpr int max_layer_number = 100'000;

}  // namespace moesim
