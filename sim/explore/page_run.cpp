// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/page_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/data_files.h"
#include "sim/base/json.h"
#include "sim/evidence/interval_table.h"
#include "sim/report/explain_text.h"
#include "sim/report/iteration_explain.h"
#include "sim/run/explain_case.h"
#include "sim/run/explain_iteration.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/run/workers.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// What makes a scenario quick.
std::vector<Override> quick_keys(const Scenario& scenario) {
  if (scenario.trains()) {
    return {{"routing", "balanced", "the quick answer"}};
  }
  return {{"fidelity", "analytic", "the quick answer"},
          {"p2p_order", "all-at-once", "the quick answer"}};
}

Scenario read_base(const AskedRun& asked, bool is_given, const GivenScenario& given,
                   const std::vector<Override>& overrides) {
  if (!asked.text.empty()) return parse_scenario(asked.text, "dropped.yaml", overrides);
  return read_scenario(is_given ? given.file : asked.base, overrides);
}

/// Sets keys, whatever was said of them before.
void set_keys(std::vector<Override>& overrides, const std::vector<Override>& keys) {
  for (const Override& key : keys) {
    if (key.path == "set") continue;
    std::erase_if(overrides, [&](const Override& o) { return o.path == key.path; });
  }
  overrides.insert(overrides.end(), keys.begin(), keys.end());
}

/// What sliders begin with: the scenario with all flags, and the topologies with all changes.
Json opened_json(const Scenario& scenario, const Inputs& inputs, InputCache& cache) {
  Json clusters = Json::object();
  for (std::size_t c = 0; c < inputs.clusters.size(); ++c) {
    const std::string& name = scenario.topologies[c];
    const std::string path = data_file("topologies", name);
    const auto overrides = scenario.overrides_of("topology", name);
    const TopologyFile& file = cache.topologies.get(changed_file(path, overrides),
                                                    [&] { return read_topology(path, overrides); });
    const Topology& topology = inputs.clusters[c].topology;
    clusters[name] = {{"name", topology.name()},
                      {"gpus", topology.gpu_count()},
                      {"hosts", topology.host_count()},
                      {"ep", inputs.clusters[c].ep},
                      {"keys", own_json(file.resolved)}};
  }
  Json experts = {{"experts", inputs.model.experts}, {"top_k", inputs.model.top_k}};
  return {{"scenario", own_json(to_text(scenario))},
          {"clusters", std::move(clusters)},
          {"model", std::move(experts)},
          {"recorded", scenario.plays_choices() && !scenario.synth}};
}

std::string comparison(const AskedRun& asked, const Scenario& scenario, const Inputs& inputs,
                       const PageRunOptions& options) {
  ComparisonOptions wanted{options.workers};
  wanted.pictures = asked.pictures;
  wanted.heard = options.heard;
  ComparisonResult result = simulate(scenario, inputs, wanted);
  add_known_intervals(scenario, inputs, result.cases);
  const auto document = asked.pictures ? pictured_result_json : result_json;
  return document(scenario, inputs, result.cases, options.version);
}

std::string explanation(const Scenario& scenario, const Inputs& inputs) {
  if (scenario.iteration) {
    const ExplainedIteration e = explain_iteration(scenario, inputs, false);
    return iteration_explanation_text(e.explanation).text();
  }
  const auto layer = static_cast<std::size_t>(inputs.layers.front());
  const int number = inputs.trace.info().layers[layer];
  const ExplainedCase c =
      explain_case(scenario, inputs, number, {Fidelity::port, Fidelity::analytic});
  return explain_text(c.explanation, c.topology(inputs.clusters[0])).text();
}

/// In a process of its own, which may be ended and may die.
std::string explained(const Scenario& scenario, const Inputs& inputs,
                      const PageRunOptions& options) {
  if (scenario.topologies.size() * scenario.policies.size() != 1) {
    throw Error("an explanation is of one topology and one policy");
  }
  const std::vector<WorkerJob<std::string>> jobs = {
      {scenario.policies[0], [&](const JobProgress&) { return explanation(scenario, inputs); }}};
  JobEvents<std::string> events;
  events.heard = options.heard;
  const auto all = run_jobs(jobs, 1, events);
  if (all.signal != 0) throw Interrupted(all.signal, "interrupted");
  return Json{{"text", *all.results[0]}}.dump();
}

}  // namespace

Scenario scenario_of(const AskedRun& asked, const GivenScenario& given) {
  const bool is_given = asked.text.empty() && asked.base == given_base;
  std::vector<Override> overrides;
  if (is_given) overrides = given.overrides;
  set_keys(overrides, asked.overrides);
  Scenario scenario = read_base(asked, is_given, given, overrides);
  if (scenario.engine_run) {
    throw Error("the page shows steps, iterations and passes of serving",
                "moesim compare runs an engine on its requests");
  }
  if (!asked.quick) return scenario;
  set_keys(overrides, quick_keys(scenario));
  return read_base(asked, is_given, given, overrides);
}

std::string page_document(const AskedRun& asked, const GivenScenario& given,
                          const PageRunOptions& options, InputCache& cache) {
  const Scenario scenario = scenario_of(asked, given);
  const Inputs inputs = open_shared_inputs(scenario, cache);
  if (options.opened) options.opened(opened_json(scenario, inputs, cache).dump());
  if (StopSignals().caught() != 0) throw Interrupted(StopSignals().caught(), "interrupted");
  return asked.kind == AskedRun::Kind::explain ? explained(scenario, inputs, options)
                                               : comparison(asked, scenario, inputs, options);
}

}  // namespace moesim
