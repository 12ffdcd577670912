// SPDX-License-Identifier: Apache-2.0
// A plan as MLCommons Chakra execution traces, which ASTRA-sim and others replay
// (github.com/mlcommons/chakra, schema/protobuf/et_def.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"

namespace moesim {

/// The file of each rank: GlobalMetadata, then its nodes, each after its length as a varint. Ids
/// count from 0 in a file, and data_deps are ids of earlier nodes.
///   - A kernel is a COMP_NODE with num_ops [flop] and tensor_size [bytes read and written].
///     duration_micros is in whole us: what rounding takes or gives passes on to the next kernel of
///     the stream, so that sums are right to half a us.
///   - An exchange is a COMM_SEND_NODE or COMM_RECV_NODE for every pair of GPUs that moves bytes
///     (comm_src, comm_dst, comm_size, and comm_tag, the op's id), because an ALL_TO_ALL has one
///     comm_size that is split evenly; and a COMP_NODE of the CPU, 0 us, that waits for them all.
std::vector<std::string> to_chakra(const Plan& plan, const GpuModels& gpus);

}  // namespace moesim
