// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/mpi_backend.h"

#include <fmt/format.h>

#include "realhw/mpi/mpi_step.h"

namespace moesim {
namespace {

class MpiBackend : public HardwareBackend {
 public:
  MpiBackend(Job& job, Transport transport, Seconds timeout)
      : job_(job), transport_(transport), timeout_(timeout) {}

  std::string name() const override { return "mpi"; }
  std::string description() const override {
    return fmt::format("{} ({})", job_.launcher(),
                       transport_ == Transport::p2p ? "p2p" : "alltoallv");
  }
  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    return std::make_unique<MpiStep>(step, GpuId(job_.rank()), transport_, timeout_);
  }

 private:
  Job& job_;
  Transport transport_;
  Seconds timeout_;
};

}  // namespace

std::unique_ptr<HardwareBackend> make_mpi_backend(Job& job, Transport transport, Seconds timeout) {
  return std::make_unique<MpiBackend>(job, transport, timeout);
}

}  // namespace moesim
