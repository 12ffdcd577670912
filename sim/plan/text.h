// SPDX-License-Identifier: Apache-2.0
// The readable text form of a plan: `moesim plan`, golden tests, execution elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "sim/plan/plan.h"

namespace moesim {

/// Version of the text form: other versions are refused.
inline constexpr int plan_text_version = 2;

/// One line per op, one indented line per matrix row; see docs/plan-format.md.
std::string to_text(const Plan& plan);

/// What a file may ask for beyond what its length pays for: a few bytes stand for many GPUs.
struct PlanLimits {
  std::int64_t gpus = 1 << 20;
  std::int64_t listed = 1 << 20;  // numbers in lists, and 64 more for each byte of the file
};

/// Reads what to_text wrote; `name` stands for the file in messages. Throws Error with the line.
Plan parse_plan(const std::string& text, const std::string& name, const PlanLimits& limits = {});

}  // namespace moesim
