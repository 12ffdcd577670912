// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/op_text.h"

#include <fmt/format.h>

#include "sim/plan/check.h"

namespace moesim {

std::runtime_error op_error(const Plan& plan, GpuId rank, OpId op, const std::string& what) {
  return std::runtime_error(fmt::format("rank {}, {} of layer {}: {}", rank.value,
                                        describe(plan, op), plan[op].key.layer, what));
}

void throw_if_not_finite(const Findings& findings, const Plan& plan, GpuId rank) {
  if (!findings.not_finite_in) return;
  throw op_error(plan, rank, *findings.not_finite_in, "a number in its results is not finite");
}

}  // namespace moesim
