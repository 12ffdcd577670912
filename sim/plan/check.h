// SPDX-License-Identifier: Apache-2.0
// The structural mistakes of a plan one by one, for readers that know where each op was written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// A broken rule of one op; the message names the op.
struct PlanMistake {
  OpId op;  // -1: the plan as a whole
  std::string message;
};

/// Every mistake that check_plan would throw, by op; at most one of each kind per op.
std::vector<PlanMistake> find_mistakes(const Plan& plan);

/// A cycle of waits, told at its lowest op; needs every id of the plan in range.
std::optional<PlanMistake> find_cycle(const Plan& plan);

/// Whether two kernels may be those of one op on two GPUs: of one kind and shape but for their
/// rows.
bool differ_in_sizes_alone(const Kernel& a, const Kernel& b);

/// Throws Error unless the plan is for a cluster of so many GPUs.
void check_gpus(const Plan& plan, std::size_t gpus);

/// `op 3 'fc1'`, for messages.
std::string describe(const Plan& plan, OpId id);

/// Ascending runs written as ranges, others one by one: `0-31,40,42`; `-` for none.
template <class Tag>
std::string list_text(const std::vector<Id<Tag>>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end].value - 1 == ids[end - 1].value) ++end;
    if (end - i < 3) end = i + 1;
    if (i > 0) text += ',';
    text += std::to_string(ids[i].value);
    if (end - i > 1) text += '-' + std::to_string(ids[end - 1].value);
    i = end;
  }
  return text.empty() ? "-" : text;
}

/// The choices k whose bits are set, ascending.
inline std::vector<Id<struct ChoiceTag>> choice_list(Choices choices) {
  std::vector<Id<struct ChoiceTag>> list;
  for (int k = 0; k < max_top_k; ++k) {
    if ((choices >> k & 1) != 0) list.emplace_back(k);
  }
  return list;
}

}  // namespace moesim
