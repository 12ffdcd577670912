// SPDX-License-Identifier: Apache-2.0
// Axes of questions, only for advise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/grid.h"

namespace moesim {

struct Question {
  const char* name;
  std::function<std::vector<SweepAxis>(const SweepGrid& grid)> axes;
  bool of_experts = false;  // dense models have no answer
};

/// An axis whose points are values of one key.
SweepAxis axis_of(const std::string& key, const std::vector<std::string>& values);

/// About what runs a whole iteration: tensor groups, pipelines, overlap, recomputation. Their axes
/// throw Error for a scenario of steps.
std::vector<Question> iteration_questions();
/// About placements that plan: how often, and in how many slots.
std::vector<Question> placement_questions();

}  // namespace moesim
