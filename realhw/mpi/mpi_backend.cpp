// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/mpi_backend.h"

#include <fmt/format.h>

#include "realhw/mpi/mpi_step.h"

namespace moesim {
namespace {

class MpiBackend : public HardwareBackend {
 public:
  MpiBackend(Job& job, const MpiOptions& options) : job_(job), options_(options) {}

  std::string name() const override { return "mpi"; }
  std::string description() const override {
    return fmt::format("{} ({}{})", job_.launcher(),
                       options_.transport == MpiTransport::p2p ? "p2p" : "alltoallv",
                       options_.together ? ", together" : "");
  }
  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    return std::make_unique<MpiStep>(step, GpuId(job_.rank()), options_);
  }

 private:
  Job& job_;
  MpiOptions options_;
};

}  // namespace

std::unique_ptr<HardwareBackend> make_mpi_backend(Job& job, const MpiOptions& options) {
  return std::make_unique<MpiBackend>(job, options);
}

}  // namespace moesim
