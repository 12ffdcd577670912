// SPDX-License-Identifier: Apache-2.0
// NCCL between emulated GPUs: a group is work of a stream, whose messages move one at a time, when
// both of their ranks have come to them. A sender's memory is read early or late, and a receiver's
// written, by chance.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace moesim::emulated {

// As NCCL's functions of these names.
ncclResult_t get_unique_id(ncclUniqueId* id);
ncclResult_t init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                       ncclConfig_t* config);
ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state);
ncclResult_t finalize(ncclComm_t comm);
ncclResult_t destroy(ncclComm_t comm);
ncclResult_t abort_communicator(ncclComm_t comm);
ncclResult_t group_start();
ncclResult_t group_end();
ncclResult_t add_message(void* at, std::size_t bytes, ncclDataType_t type, int peer,
                         ncclComm_t comm, cudaStream_t stream, bool send);

}  // namespace moesim::emulated
