// SPDX-License-Identifier: Apache-2.0
// The readable text form of a plan: `moesim plan`, golden tests, execution elsewhere.
#pragma once

#include <string>

#include "sim/plan/plan.h"

namespace moesim {

/// Of the text form: other versions are refused.
inline constexpr int plan_text_version = 2;

/// One line per op, one indented line per matrix row; see docs/plan-format.md.
std::string to_text(const Plan& plan);

/// Reads what to_text wrote; `name` stands for the file in messages. Throws Error with the line.
Plan parse_plan(const std::string& text, const std::string& name);

}  // namespace moesim
