// SPDX-License-Identifier: Apache-2.0
// NCCL as a library that is loaded: its functions, by emulated GPUs.
#include <nccl.h>

#include "tests/realhw/emulated/fabric.h"

using namespace moesim;  // NOLINT: all of it is about one namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return emulated::get_unique_id(id); }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return emulated::init_rank(comm, ranks, id, rank, config);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) { return emulated::finalize(comm); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return emulated::destroy(comm); }
ncclResult_t ncclCommAbort(ncclComm_t comm) { return emulated::abort_communicator(comm); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return emulated::get_async_error(comm, state);
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "unhandled system error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "invalid usage";
  }
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGroupStart() { return emulated::group_start(); }
ncclResult_t ncclGroupEnd() { return emulated::group_end(); }
ncclResult_t ncclSend(const void* at, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return emulated::add_message(const_cast<void*>(at), count, type, peer, comm, stream, true);
}
ncclResult_t ncclRecv(void* at, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return emulated::add_message(at, count, type, peer, comm, stream, false);
}

}  // extern "C"
