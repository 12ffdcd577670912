// SPDX-License-Identifier: Apache-2.0
// A step over fakes of NCCL and GPUs, whose ranks are threads.
#pragma once

#include "realhw/core/gemm.h"
#include "realhw/nccl/nccl_step.h"
#include "tests/realhw/nccl/fake_gpu.h"
#include "tests/realhw/nccl/fake_nccl.h"
#include "tests/realhw/nccl/thread_job.h"
#include "tests/realhw/real_case.h"

namespace moesim {

/// A case on fakes, whose ranks do what the test says.
class NcclCase {
 public:
  explicit NcclCase(const RealCaseOptions& options, double timeout = 60) : real(options) {
    set_gemm_threads(1);
    options_.timeout = Seconds(timeout);
    options_.compile.matrices = options.matrices;
  }

  int ranks() const { return real.topology.gpu_count(); }
  template <class Body>  // body(rank's runner, its job)
  std::vector<std::string> run(Body body) {
    return as_ranks(ranks(), [&](Job& job) {
      const auto backend = make_nccl_backend(
          job, {nccl.api(), [this] { return std::make_unique<FakeGpu>(log); }, "fakes"}, options_);
      const auto runner = backend->runner(*real.real);
      body(dynamic_cast<NcclStep&>(*runner), job);
    });
  }

  RealCase real;
  FakeNccl nccl;
  FakeGpu::Log log;
  NcclOptions options_;
};

inline RealCaseOptions small(const std::string& policy = "hiermoe-hd2") {
  RealCaseOptions o;
  o.policy = policy;
  o.nodes = o.gpus = 2;
  return o;
}

}  // namespace moesim
