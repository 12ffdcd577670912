// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

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
    const std::vector<Seconds> times = exchange_times(plan);
    for (auto ready = progress.take_ready(); !ready.empty(); ready = progress.take_ready()) {
      for (const auto& [op, start] : ready) progress.end(op, start + times[op.index()]);
    }
    return progress.finish();
  }

 private:
  /// Layer, pass, stage, name and repetition: the communicators of one phase run simultaneously and
  /// share their links. What repeats on a GPU (chunks), or belongs to no layer, is another phase.
  using Phase = std::tuple<int, Pass, Stage, std::string, std::size_t>;

  static std::map<Phase, std::vector<OpId>> phases(const Plan& plan) {
    std::map<Phase, std::vector<OpId>> result;
    std::map<std::pair<Phase, GpuId>, std::size_t> repetitions;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      const Exchange* exchange = op.exchange();
      if (exchange == nullptr) continue;
      Phase phase{op.layer, op.pass, op.stage, op.name, 0};
      const auto& members = exchange->participants;
      const GpuId first = members.empty() ? GpuId(-1) : members.front();
      const std::size_t repetition = repetitions[{phase, first}]++;
      std::get<std::size_t>(phase) = op.layer < 0 ? i : repetition;
      result[phase].push_back(OpId(static_cast<std::int64_t>(i)));
    }
    return result;
  }

  /// Per op; 0 for kernels.
  std::vector<Seconds> exchange_times(const Plan& plan) const {
    std::vector<Seconds> times(plan.ops.size());
    for (const auto& [phase, ops] : phases(plan)) {
      std::vector<ExchangeDemand> demands;
      for (const OpId op : ops) {
        demands.emplace_back(topology_.loads(plan[op].exchange()->traffic));
      }
      const std::vector<Seconds> together = shared_times(demands);
      for (std::size_t i = 0; i < ops.size(); ++i) times[ops[i].index()] = together[i];
    }
    return times;
  }

  const Topology& topology_;
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<Backend> make_analytic_backend(const Topology& topology, const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
