// SPDX-License-Identifier: Apache-2.0
#include "realhw/nccl/nccl_backend.h"

#include <fmt/format.h>

#include <exception>

#include "realhw/job/local_rank.h"
#include "realhw/nccl/nccl_step.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

class NcclBackend : public HardwareBackend {
 public:
  NcclBackend(Job& job, NcclParts parts, const NcclOptions& options)
      : job_(job), parts_(std::move(parts)), options_(options) {}
  ~NcclBackend() override {
    if (std::uncaught_exceptions() > 0) Communicator::abort_all(communicators_);
  }

  std::string name() const override { return "nccl"; }
  std::string description() const override { return parts_.description; }
  int sms() const override { return parts_.sms; }

  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    if (step.iteration && options_.compile.matrices != RowFormat::float32) {
      throw Error("whole iterations are computed in float32", "leave out --matrices");
    }
    const GpuId rank(job_.rank());
    auto device = parts_.make_device();  // selects its GPU, which communicators take
    join_streams(step.plan);
    return std::make_unique<NcclStep>(step, compile(step, rank, options_.compile),
                                      std::move(device), communicators_, job_, options_);
  }

 private:
  /// Every rank joins every stream's communicator, in the order of streams.
  void join_streams(const Plan& plan) {
    std::array<bool, stream_count> used{};
    for (const Op& op : plan.ops) {
      if (op.exchange() != nullptr) used[static_cast<std::size_t>(op.stream)] = true;
    }
    for (std::size_t stream = 0; stream < used.size(); ++stream) {
      if (!used[stream] || communicators_[stream]) continue;
      communicators_[stream] = std::make_unique<Communicator>(parts_.nccl, job_, options_.timeout);
    }
  }

  Job& job_;
  NcclParts parts_;
  NcclOptions options_;
  StreamCommunicators communicators_;
};

}  // namespace

std::unique_ptr<HardwareBackend> make_nccl_backend(Job& job, NcclParts parts,
                                                   const NcclOptions& options) {
  return std::make_unique<NcclBackend>(job, std::move(parts), options);
}

std::unique_ptr<HardwareBackend> make_nccl_backend(Job& job, const NcclOptions& options,
                                                   const CudaOptions& cuda) {
  const FoundGpus gpus = find_gpus();
  if (gpus.count == 0) {
    throw Error("the backend 'nccl' needs a GPU, and CUDA sees none: " + gpus.why_none);
  }
  const int index = local_rank(job) % gpus.count;
  try {
    const NcclApi& nccl = nccl_library();
    const std::unique_ptr<GpuDevice> gpu = make_cuda_device(index, cuda);
    return make_nccl_backend(
        job,
        {nccl, [index, cuda] { return make_cuda_device(index, cuda); },
         fmt::format("NCCL {}, {}", version_text(nccl), gpu->description()), gpu->sms()},
        options);
  } catch (const std::runtime_error& e) {
    throw Error(fmt::format("the backend 'nccl' cannot start: {}", e.what()));
  }
}

}  // namespace moesim
