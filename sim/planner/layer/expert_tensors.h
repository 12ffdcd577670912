// SPDX-License-Identifier: Apache-2.0
// Expert tensor parallelism: GPUs that hold parts of the tensors of the same experts.
#pragma once

#include <vector>

#include "sim/mechanism/placer.h"
#include "sim/plan/group.h"

namespace moesim {

/// Lists of EP groups; group i of a list holds part i of the tensors of its experts. The GPUs of
/// one rank in the groups of a list are an expert-tensor-parallel (ETP) group: they gather what is
/// dispatched to each of them, multiply by their parts of the weights (fc1 by columns, fc2 by rows)
/// and scatter the sums before the combine, as Megatron-Core's token dispatcher does. No lists:
/// every GPU holds whole experts.
using TensorSharers = std::vector<std::vector<int>>;

/// The model as a GPU sees it that holds one of `etp` parts of each of its experts. Throws Error
/// unless etp divides the width of the experts.
MoeModel with_parts_of_experts(MoeModel model, int etp);

/// The ETP groups of all ranks.
std::vector<Group> tensor_groups(const EpGroups& groups, const TensorSharers& sharers);

/// To every EP group of a list the choices of all of them, rank by rank: they decide together.
LoadMatrix joint_loads(const LoadMatrix& loads, const EpGroups& groups,
                       const TensorSharers& sharers);

/// Throws Unsuitable if the EP groups of a list were given different experts, if ranks have quotas
/// of tokens for replicas, or if experts are divided over all EP groups already.
void check_shared(const LayerDecision& decision, const EpGroups& groups,
                  const TensorSharers& sharers);

}  // namespace moesim
