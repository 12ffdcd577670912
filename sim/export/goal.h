// SPDX-License-Identifier: Apache-2.0
// A plan as a GOAL schedule, which other simulators replay (T. Hoefler et al., "Group Operation
// Assembly Language", ICPP 2009; LogGOPSim, ATLAHS).
#pragma once

#include <string>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"

namespace moesim {

/// The text form that LogGOPSim's txt2bin reads: per rank a list of `calc` [ns], `send` and `recv`
/// [bytes] with what each requires.
///   - A kernel is a calc of its time on its GPU, `gpus` [rank], by itself; fractions of a
///     nanosecond are rounded.
///   - An exchange is a send and a receive per pair of GPUs that moves bytes, with the op's id as
///     tag, all of them at once, and a calc 0 that requires them all: what comes after it waits
///     there. Pairs begin when both sides have come, as at fidelity flow; bytes that stay on a GPU
///     are left out.
///   - All is on cpu 0, because LogGOPSim lets what is on another one begin before what it requires
///     has ended: kernels that overlap on two streams follow each other.
/// Latencies, overheads and rates of links are those of the simulator that replays it.
std::string to_goal(const Plan& plan, const GpuModels& gpus);

}  // namespace moesim
