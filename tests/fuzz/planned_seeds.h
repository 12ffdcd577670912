// SPDX-License-Identifier: Apache-2.0
// Seeds that a planner makes.
#pragma once

#include <string>
#include <vector>

namespace moesim::fuzz {

std::vector<std::string> plan_texts();
/// As tests/fuzz/saved.cpp reads them.
std::vector<std::string> saved_texts();
std::vector<std::string> grid_texts();

}  // namespace moesim::fuzz
