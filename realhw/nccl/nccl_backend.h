// SPDX-License-Identifier: Apache-2.0
// Plans over NCCL on GPUs.
#pragma once

#include <functional>
#include <memory>

#include "realhw/core/step_runner.h"
#include "realhw/cuda/cuda_device.h"
#include "realhw/job/job.h"
#include "realhw/program/compile.h"
#include "sim/base/types.h"

namespace moesim {

struct NcclApi;

struct NcclOptions {
  Seconds timeout{30};  // without any progress, after which a run throws
  bool graphs = true;   // capture a step at its first run that is not verified, then replay it
  CompileOptions compile;
};

/// What the backend is made of, for stand-ins.
struct NcclParts {
  const NcclApi& nccl;
  /// A device without a program, for every step a new one.
  std::function<std::unique_ptr<GpuDevice>()> make_device;
  std::string description;
  int sms = 0;  // of the rank's GPU
};
std::unique_ptr<HardwareBackend> make_nccl_backend(Job& job, NcclParts parts,
                                                   const NcclOptions& options);

/// With the rank's GPU, which is its number on its host, and the NCCL that is found. All ranks
/// together; the job must outlive it. Throws Error when there is no GPU or no NCCL.
std::unique_ptr<HardwareBackend> make_nccl_backend(Job& job, const NcclOptions& options,
                                                   const CudaOptions& cuda = {});

}  // namespace moesim
