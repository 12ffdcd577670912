// SPDX-License-Identifier: Apache-2.0
// A communicator of all ranks of a job that never blocks its caller for longer than a time limit.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "realhw/cuda/gpu_device.h"
#include "realhw/job/job.h"
#include "realhw/nccl/nccl_api.h"

namespace moesim {

class Communicator {
 public:
  /// Nothing may follow on the communicator: what became of its messages is unknown.
  struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  /// What failed is not the call that found it, but an exchange on its way.
  struct BackgroundError : Failure {
    using Failure::Failure;
  };
  /// A message to or from a peer, in device memory.
  struct Part {
    int peer = 0;
    std::byte* bytes = nullptr;
    std::size_t size = 0;
  };

  /// All ranks together, with their GPU selected. The table and the job must outlive it. Throws
  /// std::runtime_error with NCCL's words, or when some rank has not joined within the limit.
  Communicator(const NcclApi& nccl, Job& job, Seconds limit);
  /// Leaves when all is well: aborts while an exception is on its way.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  /// Puts the messages, one group, on the stream, and returns when they are on it. Throws as the
  /// constructor does; Failure if NCCL has taken the messages, but does not say that it put them.
  void exchange(std::span<const Part> sends, std::span<const Part> receives, GpuStream stream);
  /// Throws BackgroundError when the communicator has failed meanwhile.
  void check();
  /// Ends whatever they are doing on this rank, null ones skipped; they are of no use then. In one
  /// group: aborting waits for the GPU's streams, on which messages of the others may spin.
  static void abort_all(std::span<const std::unique_ptr<Communicator>> communicators);

 private:
  void check(ncclResult_t result, const char* caller = __builtin_FUNCTION());
  void abort();
  void put_parts(std::span<const Part> sends, std::span<const Part> receives, GpuStream stream);
  ncclResult_t state();
  std::string text_of(ncclResult_t result) const;
  void wait_until_ready(const char* for_what);

  const NcclApi& nccl_;
  Job& job_;
  Seconds limit_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace moesim
