// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/foretold.h"

#include <cmath>
#include <utility>

#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim {
namespace {

SpillOptions ahead(SpillOptions options) {
  options.before_gate = true;
  return options;
}

}  // namespace

Foresight read_foresight(const YamlMap& params, Foresight absent) {
  const auto index = static_cast<int>(absent);
  return static_cast<Foresight>(params.choice("predictor", {"layer", "step", "oracle"}, index));
}

Foretold::Foretold(const PlacementContext& c, const SpillOptions& options, Foresight foresight)
    : Spilling(c, ahead(options)),
      foresight_(foresight),
      adjacent_(c.layers, c.experts),
      newest_(cells()) {}

std::vector<double> Foretold::expected(const GroupStep& at) const {
  if (foresight_ == Foresight::oracle || context().knows_routing(at.layer))
    return eplb::loads_of(at.loads);
  if (foresight_ == Foresight::step || at.layer == 0) return newest_[at.cell];
  return adjacent_.expect(at.layer, newest_[cell(at.layer - 1, at.group)]);
}

llep::Plan Foretold::plan_of(const GroupStep& at) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(context().experts));
  const std::vector<double> loads = expected(at);
  for (std::size_t e = 0; e < loads.size(); ++e) counts[e] = std::llround(loads[e]);
  return plan_for(counts);
}

Assignment Foretold::assign(const GroupStep& at, Placement slots) {
  llep::Plan plan = plan_now(at);
  const auto counts = at.loads.per_expert();
  for (std::size_t e = 0; e < counts.size(); ++e) {
    auto& chunks = plan.chunks[e];
    std::vector<double> weights;
    for (const llep::Chunk& c : chunks) weights.push_back(static_cast<double>(c.last - c.first));
    if (chunks.empty()) {
      const ExpertId expert(static_cast<std::int64_t>(e));
      chunks.push_back({llep::owner(expert, context().experts, ep())});
      weights = {1};
    }
    const auto parts = apportion(counts[e], weights);
    std::int64_t dealt = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      chunks[i].first = dealt;
      chunks[i].last = dealt += parts[i];
    }
    std::erase_if(chunks, [](const llep::Chunk& c) { return c.first == c.last; });
  }
  return Assignment(std::move(slots), llep::shares(plan, at.loads));
}

void Foretold::observe(const GroupStep& at) { newest_[at.cell] = eplb::loads_of(at.loads); }

void Foretold::observe_all(const LayerRoutingNow& now, bool) {
  if (foresight_ == Foresight::layer) adjacent_.observe(now);
}

}  // namespace moesim
