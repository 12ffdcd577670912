// SPDX-License-Identifier: Apache-2.0
// FasterMoE's smart schedule (PPoPP 2022; laekov/fastmoe, cuda/fastermoe/smart_schedule.h): the
// all-to-all in steps between groups of ranks, so that experts compute while tokens travel.
#pragma once

#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// What a step of the schedule does. C, and shadow_compute, run on the compute stream, the others
/// on the communication stream.
enum class ScheduleWork {
  send,            // S_k: tokens to group (mine + k) mod n, from group (mine - k) mod n
  compute,         // C_k: experts on what S_k brought
  receive,         // R_k: results, S_k reversed
  broadcast,       // parameters of a shadowed expert, from its owner
  shadow_compute,  // shadowed experts on the GPU's own tokens
  reduce           // gradients of a shadowed expert, to its owner
};

struct ScheduleStep {
  ScheduleWork work = ScheduleWork::send;
  int group = 0;                // k of S, C and R
  ExpertId expert;              // of broadcast, shadow_compute and reduce
  std::vector<int> after = {};  // steps of the other stream that it waits for
  bool operator==(const ScheduleStep&) const = default;
};

enum class SchedulePass { forward, backward };

/// Steps in issue order, the same on every rank: those of one stream run one after the other.
/// Forward: S_0.., a broadcast a shadow, R_0.. on the communication stream; C_0.. and the shadowed
/// experts on the compute stream. Backward: the shadowed experts come before C_0.. and their
/// gradients are reduced before R_0..; their parameters are still there. Throws Error unless groups
/// of min(group_size, world) ranks divide the world.
std::vector<ScheduleStep> smart_schedule(int world, int group_size,
                                         std::span<const ExpertId> shadows, SchedulePass pass);

/// The group of ranks to which a rank of group `mine` sends in S_k, of n groups. It receives from
/// the group whose partner it is.
constexpr int send_partner(int mine, int k, int n) { return (mine + k) % n; }
constexpr int receive_partner(int mine, int k, int n) { return (mine - k + n) % n; }

}  // namespace moesim
