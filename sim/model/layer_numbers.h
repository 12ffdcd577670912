// SPDX-License-Identifier: Apache-2.0
// Compares the layer numbers of a trace with a model's: a dense layer routes nothing, so a trace
// that has one is another model's.
#pragma once

#include <string>
#include <vector>

#include "sim/model/moe_model.h"

namespace moesim {

/// "3..60" for consecutive numbers, else "1, 3, 5".
std::string numbers_text(const std::vector<int>& numbers);

/// Those of the numbers that are not MoE layers of the model.
std::vector<int> dense_layers(const std::vector<int>& numbers, const MoeModel& model);

/// "layers 0..2 are dense in the model 'deepseek-v3', whose MoE layers are 3..60".
std::string dense_layers_text(const std::vector<int>& dense, const MoeModel& model);

}  // namespace moesim
