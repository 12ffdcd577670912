// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include <vector>

#include "sim/plan/exchange_time.h"
#include "sim/plan/phases.h"
#include "sim/plan/progress.h"

namespace moesim {
namespace {

class AnalyticBackend : public SimulatedBackend {
 public:
  AnalyticBackend(const Topology& topology, const GpuModels& gpus)
      : SimulatedBackend(topology), gpus_(gpus) {}

  Timeline run(const PricedPlan& plan) override {
    const std::vector<Seconds> times = exchange_times(plan);
    return with_overlap(plan.plan(), gpus_, [&](const Delays& delays) {
      Progress progress(plan.plan(), gpus_, delays);
      for (auto joined = progress.take_joined(); !joined.empty(); joined = progress.take_joined()) {
        for (const Progress::Joined& one : joined) {
          if (one.all) progress.end(one.op, *one.all + times[one.op.index()]);
        }
      }
      return progress.finish();
    });
  }

 private:
  /// Per op; 0 for kernels.
  static std::vector<Seconds> exchange_times(const PricedPlan& plan) {
    std::vector<Seconds> times(plan.plan().ops.size());
    for (const std::vector<OpId>& ops : exchange_phases(plan.plan())) {
      std::vector<ExchangePrice> prices;
      for (const OpId op : ops) prices.push_back(plan[op]);
      const std::vector<Seconds> together = shared_times(prices);
      for (std::size_t i = 0; i < ops.size(); ++i) times[ops[i].index()] = together[i];
    }
    return times;
  }

  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_analytic_backend(const Topology& topology,
                                                        const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
