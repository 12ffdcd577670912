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
    const std::map<Phase, LinkLoads> loads = phase_loads(plan);
    for (auto ready = progress.take_ready(); !ready.empty(); ready = progress.take_ready()) {
      for (const auto& [op, start] : ready) {
        LinkLoads own = topology_.loads(plan[op].exchange()->traffic);
        if (plan[op].layer >= 0) share(own, loads.at(phase_of(plan[op])));
        progress.end(op, start + exchange_time(topology_, own).total());
      }
    }
    return progress.finish();
  }

 private:
  /// The communicators of one phase of a layer: they run simultaneously and share their links.
  /// Exchanges of no layer stand alone.
  using Phase = std::tuple<int, Pass, Stage, std::string>;
  static Phase phase_of(const Op& op) { return {op.layer, op.pass, op.stage, op.name}; }

  /// On the links it uses, an exchange waits for all bytes of its phase.
  static void share(LinkLoads& own, const LinkLoads& phase) {
    for (std::size_t link = 0; link < own.bytes.size(); ++link) {
      if (own.bytes[link] == 0) continue;
      own.bytes[link] = phase.bytes[link];
      own.first[link] = phase.first[link];
    }
  }

  std::map<Phase, LinkLoads> phase_loads(const Plan& plan) const {
    std::map<Phase, LinkLoads> loads;
    for (const Op& op : plan.ops) {
      if (op.exchange() == nullptr || op.layer < 0) continue;
      const LinkLoads own = topology_.loads(op.exchange()->traffic);
      const auto [it, first] = loads.try_emplace(phase_of(op), own);
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
