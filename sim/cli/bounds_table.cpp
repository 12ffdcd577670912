// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/bounds_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "sim/base/units.h"
#include "sim/cli/simulate.h"
#include "sim/cli/workers.h"
#include "sim/policy/unsuitable.h"
#include "sim/report/explain.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

/// Sums over the layers and token movements of one step.
struct Sums {
  Seconds alone, bound;
  double least_ratio = 0;  // of a movement to its bound; 0: none has one
  Bytes between_hosts;
  std::vector<std::int64_t> classes;  // bytes per link class
  std::set<int> phases;
};

void add_bounds(Sums& sums, const Explanation& explanation, const std::string& policy) {
  for (const BoundReport& movement : explanation.bounds) {
    const Seconds alone = movement.achieved.front().second;
    sums.alone += alone;
    sums.bound += movement.bound();
    sums.between_hosts += movement.between_hosts;
    if (movement.least.bytes.value == 0) continue;
    const double ratio = alone / movement.bound();
    if (ratio < 1 - 1e-9) {
      throw std::logic_error(fmt::format("{}: {} takes {}, less than the least possible {}", policy,
                                         name_of(movement.stage), to_string(alone),
                                         to_string(movement.bound())));
    }
    sums.least_ratio = sums.least_ratio == 0 ? ratio : std::min(sums.least_ratio, ratio);
  }
}

void add_classes(Sums& sums, const Explanation& explanation, const Topology& topology) {
  sums.classes.resize(topology.classes().size());
  for (const PhaseReport& phase : explanation.phases) {
    for (const ClassLoad& load : phase.classes) {
      sums.classes[static_cast<std::size_t>(load.link_class)] += load.bytes;
    }
  }
}

std::string row(const Sums& sums, const ClusterInput& cluster, const SystemSpec& system) {
  std::string classes;
  for (std::size_t c = 0; c < sums.classes.size(); ++c) {
    if (sums.classes[c] == 0) continue;
    if (!classes.empty()) classes += "  ";
    classes +=
        fmt::format("{} {}", cluster.topology.classes()[c].name, to_string(Bytes(sums.classes[c])));
  }
  return nlohmann::json(std::vector<std::string>{
                            cluster.topology.name(), system.name,
                            fmt::format("{}", fmt::join(sums.phases, "-")), to_string(sums.alone),
                            to_string(sums.bound),
                            sums.least_ratio > 0 ? fmt::format("{:.2f}x", sums.least_ratio) : "-",
                            to_string(sums.between_hosts), classes})
      .dump();
}

std::string run_case(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                     const SystemSpec& system, const Progress& progress) {
  Sums sums;
  const auto backend = make_backend(Fidelity::port, scenario.p2p_order, cluster);
  int done = 0;
  for (const int layer : inputs.layers) {
    PlannerOptions options = inputs.planner_options(scenario, cluster);
    options.layers = {layer};
    options.explicit_rows = true;
    StepPlanner planner(system, cluster.topology, inputs.model, inputs.trace, options);
    const StepPlan planned = planner.plan(cluster.batches.batches[0], cluster.first_step);
    sums.phases.insert(planned.layers[0].dispatch->phases());
    const Explanation explanation =
        explain(planned.plan, cluster.topology, cluster.gpus, {{"port", backend.get()}});
    add_bounds(sums, explanation, system.name);
    add_classes(sums, explanation, cluster.topology);
    progress(++done, static_cast<int>(inputs.layers.size()));
  }
  return row(sums, cluster, system);
}

}  // namespace

std::string bounds_table(const Scenario& scenario, const Inputs& inputs, int workers) {
  std::vector<WorkerJob> jobs;
  for (const ClusterInput& cluster : inputs.clusters) {
    if (!cluster.unsuitable.empty()) continue;  // the first table tells why
    for (const SystemSpec& system : inputs.systems) {
      jobs.push_back({fmt::format("{} {} bounds", cluster.topology.name(), system.name),
                      [&scenario, &inputs, c = &cluster, s = &system](const Progress& progress) {
                        try {
                          return run_case(scenario, inputs, *c, *s, progress);
                        } catch (const Unsuitable&) {
                          return std::string("[]");  // the first table tells why
                        }
                      }});
    }
  }
  std::vector<std::vector<std::string>> rows = {{"topology", "policy", "phases", "exchanges",
                                                 "least", "nearest", "off-host bytes",
                                                 "bytes per link class"}};
  for (const std::string& line : run_jobs(jobs, workers)) {
    auto cells = nlohmann::json::parse(line).get<std::vector<std::string>>();
    if (!cells.empty()) rows.push_back(std::move(cells));
  }
  return align(rows, 3);
}

}  // namespace moesim
