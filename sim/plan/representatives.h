// SPDX-License-Identifier: Apache-2.0
// GPUs that do the same in a plan, of which only one is simulated.
#pragma once

#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"

namespace moesim {

/// GPUs of a plan that stand for all.
struct Representatives {
  std::vector<GpuId> gpus;  // ascending; empty: all GPUs are themselves
  std::vector<GpuId> of;    // [GPU] who stands for it, unless empty
  bool empty() const { return gpus.empty(); }
};

/// GPUs are alike if they run the same ops, with equal kernels on equal models. Whatever simulates
/// exchanges that end for all members together then gives them the same times, as nothing tells
/// them apart: by induction over the ends of ops. Returns the first GPU of each class; nobody
/// unless all classes are of one size, so that means over them are means over GPUs, and of two
/// GPUs or more.
Representatives representatives(const Plan& plan, const GpuModels& gpus);

/// The plan for these GPUs only, under their numbers: ops have the ids of the whole plan, and
/// exchanges say what all of their members move. Every op must keep a member.
Plan plan_of(const std::vector<GpuId>& gpus, Plan whole);

}  // namespace moesim
