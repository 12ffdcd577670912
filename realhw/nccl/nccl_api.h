// SPDX-License-Identifier: Apache-2.0
// The little of NCCL that we use, as a table: filled from the library when it is needed, or by a
// stand-in.
#pragma once

#include <nccl.h>

#include <string>

namespace moesim {

// Communicators that do not block came with 2.14.
static_assert(NCCL_VERSION_CODE >= 21400);

struct NcclApi {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

/// Functions of the library that the process uses, loaded at the first call and never closed.
/// Throws std::runtime_error when there is none or it is older than 2.14.
const NcclApi& nccl_library();

/// "2.28.9"
std::string version_text(const NcclApi& nccl);

}  // namespace moesim
