// SPDX-License-Identifier: Apache-2.0
#include "sim/run/explain_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/names.h"
#include "sim/run/backends.h"
#include "sim/run/elasticities.h"
#include "sim/run/memory_views.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/run/turn_times.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {
namespace {

RoutingSource explained_routing(const Scenario& scenario) {
  const auto asked = scenario.routings();
  const bool recorded = std::ranges::find(asked, RoutingSource::recorded) != asked.end();
  return recorded ? RoutingSource::recorded : RoutingSource::balanced;
}

std::vector<RankReport> rank_reports(const PlannedStep& planned, const Timeline& timeline,
                                     const Grid& grid, const ClusterInput& cluster) {
  std::vector<RankReport> ranks;
  const std::vector<IterationTimes> times =
      iteration_times_by_gpu(planned.plan, timeline, hosts_take_time(cluster.gpus));
  for (const GpuId gpu : cluster.topology.all_gpus()) {
    ranks.push_back({gpu, gpu_name(cluster.topology, gpu), grid.place(gpu).pp, times[gpu.index()],
                     peak_of(planned.memory, gpu, cluster.gpus)});
  }
  return ranks;
}

}  // namespace

ExplainedIteration explain_iteration(const Scenario& scenario, const Inputs& inputs,
                                     bool with_elasticities) {
  const PolicyView view = view_of(scenario, inputs, 0);
  const ClusterInput& cluster = view.inputs.clusters[0];
  const Fidelity fidelity = scenario.fidelities.front();
  const RoutingSource routing = explained_routing(scenario);
  PolicyPlanner iterations(view, {.routing = routing});
  PlannedStep planned = iterations.plan(0);
  iterations.require_memory(planned, cluster.gpus);
  const SimulatedAt at{fidelity, scenario.p2p_order};
  const auto backend = make_backend(fidelity, at.order, cluster);
  const PricedPlan priced(planned.plan, cluster.topology);
  const Timeline timeline = backend->run(priced);
  IterationExplanation e;
  if (scenario.serves()) e.noun = "step";
  e.times = iteration_times(planned.plan, timeline, hosts_take_time(cluster.gpus));
  e.ranks = rank_reports(planned, timeline, iterations.planner().shape().grid, cluster);
  const Pipeline& pipeline = iterations.planner().shape().pipeline;
  if (pipeline.stages() > 1) {
    e.turns =
        mean_of(turn_times_by_stage(planned.plan, timeline, pipeline, stages_of(planned.memory)));
  }
  e.path = critical_path(planned.plan, timeline);
  e.sums = path_sums(e.path, priced, cluster.gpus);
  e.bounds = time_bounds(priced, timeline, cluster.gpus, exchange_rules(fidelity));
  if (with_elasticities) {
    e.elasticities = elasticities(planned.plan, cluster, at, timeline.makespan);
  }
  return {std::move(e), std::move(planned.plan),
          routing_source_names[static_cast<std::size_t>(routing)],
          backend_name(fidelity, scenario.p2p_order)};
}

std::string explain_iteration_header(const Scenario& scenario, const Inputs& inputs,
                                     const ExplainedIteration& e, const std::string& version) {
  return result_header(scenario, inputs, version) + fmt::format("# policy {}, {} routing, at {}\n",
                                                                inputs.systems[0].name, e.routing,
                                                                e.fidelity);
}

std::string explain_iteration_document(const Scenario& scenario, const Inputs& inputs,
                                       const ExplainedIteration& e, const std::string& version) {
  const ClusterInput& cluster = inputs.clusters[0];
  auto result = document_of_case("moesim-iteration-explanation", scenario, inputs, version);
  result["routing"] = e.routing;
  result["fidelity"] = e.fidelity;
  result["gpus"] = cluster.topology.gpu_count();
  result.update(iteration_explanation_json(e.explanation, e.plan));
  return result.dump(1) + "\n";
}

}  // namespace moesim
