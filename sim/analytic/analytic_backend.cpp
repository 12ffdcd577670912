// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include "sim/plan/exchange_time.h"
#include "sim/plan/progress.h"

namespace moesim {
namespace {

class AnalyticBackend : public Backend {
 public:
  AnalyticBackend(const Topology& topology, const GpuModels& gpus)
      : topology_(topology), gpus_(gpus) {}

  Timeline run(const Plan& plan) override {
    Progress progress(plan, gpus_);
    for (auto ready = progress.take_ready(); !ready.empty(); ready = progress.take_ready()) {
      for (const auto& [op, start] : ready) {
        progress.end(op, start + exchange_time(topology_, plan[op].exchange()->traffic).total());
      }
    }
    return progress.finish();
  }

 private:
  const Topology& topology_;
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<Backend> make_analytic_backend(const Topology& topology, const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
