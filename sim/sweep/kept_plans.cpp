// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/kept_plans.h"

#include <utility>

#include "sim/base/wire.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

bool changes_cluster(const Override& change) {
  const std::string input = change.path.substr(0, change.path.find_first_of(".:"));
  return input == "topology" || input == "gpu";
}

/// What planners may look at unless they look at rates.
void put_structure(std::string& bytes, const Topology& topology) {
  put(bytes, topology.name());
  put(bytes, topology.network());
  put(bytes, topology.measured_with());
  for (const Vertex& vertex : topology.vertices()) {
    put(bytes, vertex.name);
    put(bytes, vertex.kind);
    put(bytes, vertex.host);
  }
  for (const Link& link : topology.links()) {
    put(bytes, link.from);
    put(bytes, link.to);
    put(bytes, link.link_class);
    put(bytes, link.cost);
  }
  for (const LinkClass& of : topology.classes()) {
    put(bytes, of.name);
    put(bytes, of.tier);
  }
  for (const GpuId gpu : topology.all_gpus()) {
    put(bytes, topology.vertex_of(gpu));
    put(bytes, topology.gpu_model(gpu));
  }
  for (const Level& level : topology.levels()) {
    put(bytes, level.name);
    put(bytes, level.group_of);
  }
}

}  // namespace

std::string plan_key(const OpenedScenario& opened) {
  Scenario scenario = opened.scenario;
  std::erase_if(scenario.set, changes_cluster);
  scenario.fidelities.clear();
  std::string key = scenario_line(scenario);
  put_structure(key, opened.inputs.clusters[0].topology);
  return key;
}

KeptPlans::Steps KeptPlans::find(const OpenedScenario& opened) {
  if (opened.scenario.iteration) return nullptr;
  const Kept* known = kept_.find(plan_key(opened));
  return known != nullptr ? known->steps : nullptr;
}

void KeptPlans::keep(std::shared_ptr<const OpenedScenario> opened, const Steps& steps) {
  if (!steps || !steps->all_kept() || steps->looks().any()) return;
  if (!opened->inputs.systems.front().sources.commands.empty()) return;
  const std::string key = plan_key(*opened);
  kept_.get(key, [&] { return Kept{std::move(opened), steps}; });
}

}  // namespace moesim
