// SPDX-License-Identifier: Apache-2.0
#include "realhw/nccl/nccl_api.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

#include "realhw/cuda/shared_library.h"

namespace moesim {
namespace {

int version_of(const NcclApi& nccl) {
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess) throw std::runtime_error("NCCL has no version");
  return version;
}

/// Loads NCCL when it is used, so that the same program starts on machines without it. The version
/// comes first: an older library lacks functions, and the message should say so.
NcclApi load() {
  // Several communicators of a GPU need one order of their launches on all ranks. NCCL then takes
  // the host's, which is that of the plan, in graphs, too; from 2.26 on.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  // Graphs and other exchanges of a communicator never overlap here. With support for that, NCCL
  // 2.28.9 mixed up messages of what it ran after a dropped graph (docs/results/gpu.md).
  setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
  static const SharedLibrary library({"libnccl.so.2", "MOESIM_NCCL", "NCCL_HOME", "nccl"});
  NcclApi nccl;
  library.find("ncclGetVersion", nccl.get_version);
  if (const int version = version_of(nccl); version < 21400) {
    throw std::runtime_error(fmt::format("{} is NCCL {}, but 2.14 or newer is needed",
                                         library.path(), version_text(nccl)));
  }
  library.find("ncclGetUniqueId", nccl.get_unique_id);
  library.find("ncclCommInitRankConfig", nccl.init_rank);
  library.find("ncclCommFinalize", nccl.finalize);
  library.find("ncclCommDestroy", nccl.destroy);
  library.find("ncclCommAbort", nccl.abort);
  library.find("ncclCommGetAsyncError", nccl.get_async_error);
  library.find("ncclGetErrorString", nccl.error_string);
  library.find("ncclGetLastError", nccl.last_error);
  library.find("ncclGroupStart", nccl.group_start);
  library.find("ncclGroupEnd", nccl.group_end);
  library.find("ncclSend", nccl.send);
  library.find("ncclRecv", nccl.receive);
  return nccl;
}

}  // namespace

const NcclApi& nccl_library() {
  static const NcclApi nccl = load();
  return nccl;
}

std::string version_text(const NcclApi& nccl) {
  const int version = version_of(nccl);
  // Up to 2.8 the major number stood before three digits.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  return fmt::format("{}.{}.{}", major, version / 100 % (version < 10000 ? 10 : 100),
                     version % 100);
}

}  // namespace moesim
