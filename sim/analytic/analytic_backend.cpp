// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

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
    const std::vector<Phase> phase_of = phases(plan);
    const std::map<Phase, LinkLoads> loads = phase_loads(plan, phase_of);
    for (auto ready = progress.take_ready(); !ready.empty(); ready = progress.take_ready()) {
      for (const auto& [op, start] : ready) {
        LinkLoads own = topology_.loads(plan[op].exchange()->traffic);
        share(own, loads.at(phase_of[op.index()]));
        progress.end(op, start + exchange_time(topology_, own).total());
      }
    }
    return progress.finish();
  }

 private:
  /// Layer, pass, stage, name and repetition: the communicators of one phase run simultaneously and
  /// share their links. What repeats on a GPU (chunks), or belongs to no layer, is another phase.
  using Phase = std::tuple<int, Pass, Stage, std::string, std::size_t>;

  static std::vector<Phase> phases(const Plan& plan) {
    std::vector<Phase> result;
    std::map<std::pair<Phase, GpuId>, std::size_t> repetitions;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      Phase phase{op.layer, op.pass, op.stage, op.name, 0};
      if (const Exchange* exchange = op.exchange()) {
        const auto& members = exchange->participants;
        const GpuId first = members.empty() ? GpuId(-1) : members.front();
        const std::size_t repetition = repetitions[{phase, first}]++;
        std::get<std::size_t>(phase) = op.layer < 0 ? i : repetition;
      }
      result.push_back(std::move(phase));
    }
    return result;
  }

  /// On the links it uses, an exchange waits for all bytes of its phase.
  static void share(LinkLoads& own, const LinkLoads& phase) {
    for (std::size_t link = 0; link < own.bytes.size(); ++link) {
      if (own.bytes[link] == 0) continue;
      own.bytes[link] = phase.bytes[link];
      own.first[link] = phase.first[link];
    }
  }

  std::map<Phase, LinkLoads> phase_loads(const Plan& plan,
                                         const std::vector<Phase>& phase_of) const {
    std::map<Phase, LinkLoads> loads;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Exchange* exchange = plan.ops[i].exchange();
      if (exchange == nullptr) continue;
      const LinkLoads own = topology_.loads(exchange->traffic);
      const auto [it, first] = loads.try_emplace(phase_of[i], own);
      if (first) continue;
      LinkLoads& all = it->second;
      for (std::size_t link = 0; link < own.bytes.size(); ++link) {
        all.bytes[link] += own.bytes[link];
        all.first[link] = std::min(all.first[link], own.first[link]);
      }
    }
    return loads;
  }

  const Topology& topology_;
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<Backend> make_analytic_backend(const Topology& topology, const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
