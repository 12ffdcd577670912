// SPDX-License-Identifier: Apache-2.0
// A plan seen from its ranks, each with a program of its own: what simulators replay that know
// messages between two ranks and no exchanges of a group.
#pragma once

#include <functional>
#include <span>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"

namespace moesim {

/// A step of one rank's program.
///   - compute: a kernel, for `time`.
///   - send, receive: one message of an exchange, `bytes` to or from `peer`. Bytes that stay on a
///     GPU are not a message.
///   - join: the end of an exchange on this rank, after all of its messages.
struct MessageStep {
  enum class Kind { compute, send, receive, join };
  Kind kind = Kind::join;
  OpId op;
  GpuId peer;
  Bytes bytes;
  Seconds time;
  std::span<const int> after = {};  // earlier steps of this rank, valid during the visit
};

/// Calls visit(rank, step) for every step. Those of a rank are numbered from 0 in the order of the
/// calls, and each comes after the steps that it waits for; of an exchange the sends come first.
/// `gpus` [rank] say how long kernels take.
void visit_message_steps(const Plan& plan, const GpuModels& gpus,
                         const std::function<void(GpuId, const MessageStep&)>& visit);

/// What GPUs and the memory of their hosts copy, which is in no step: it has no second rank.
Bytes copied_with_hosts(const Plan& plan);

}  // namespace moesim
