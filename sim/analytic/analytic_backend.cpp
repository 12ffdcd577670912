// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include <algorithm>

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
        progress.end(op, start + duration(*plan[op].exchange()));
      }
    }
    return progress.finish();
  }

 private:
  Seconds duration(const Exchange& exchange) const {
    const LinkLoads loads = topology_.loads(exchange.traffic);
    const std::vector<Link>& links = topology_.links();
    Seconds busiest(0);
    for (std::size_t l = 0; l < loads.bytes.size(); ++l) {
      busiest = std::max(busiest, Bytes(loads.bytes[l]) / links[l].bandwidth);
    }
    return topology_.exchange_overhead() + loads.latency + busiest;
  }

  const Topology& topology_;
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<Backend> make_analytic_backend(const Topology& topology, const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
