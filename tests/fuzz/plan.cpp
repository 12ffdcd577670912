// SPDX-License-Identifier: Apache-2.0
// The text form of plans: what was read is written and read again as it was.
#include "sim/plan/plan.h"

#include "sim/plan/text.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

/// So that few inputs stand for so many numbers that nothing else is tried meanwhile.
constexpr PlanLimits few{.gpus = 1000, .listed = 1000};

void read_plan_text(std::string_view bytes) {
  const Plan read = parse_plan(std::string(bytes), "a.plan", few);
  const std::string text = to_text(read);
  require(to_text(parse_plan(text, "again.plan")) == text, "a plan changes when it is read again");
  topological_order(read);
}

}  // namespace

const Target plan_target{"plan", read_plan_text};

}  // namespace moesim::fuzz
