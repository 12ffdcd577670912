// SPDX-License-Identifier: Apache-2.0
#include "sim/run/whatif.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/topology/narrow_front.h"

namespace moesim {
namespace {

/// Runs `action`. The GPUs that --fail leaves may not suit the scenario; then the Error says so and
/// what you can change.
template <class Action>
void with_hint_of_failed(const WhatIf& what, Action action) {
  try {
    action();
  } catch (const Error& e) {
    if (what.fail.empty()) throw;
    const Diagnostic& d = e.diagnostics().front();
    throw Error(
        "after --fail: " + d.message,
        d.hint.empty() ? "fail whole hosts or EP groups, or change the scenario's sizes" : d.hint);
  }
}

WhatIfSide side_of(const CaseResult& c) {
  WhatIfSide side;
  side.unsuitable = c.unsuitable;
  if (!c.ran()) return side;
  side.time = c.metrics.mean_step();
  side.gpus = c.gpus();
  side.tokens = c.metrics.tokens;
  side.path = c.metrics.path;
  return side;
}

/// Shares all that is read from files; clusters are made anew.
Inputs without_clusters(const Inputs& inputs) {
  return {.trace = inputs.trace,
          .model = inputs.model,
          .model_file = inputs.model_file,
          .clusters = {},
          .systems = inputs.systems,
          .system_files = inputs.system_files,
          .layers = inputs.layers,
          .warnings = inputs.warnings,
          .transport_files = inputs.transport_files,
          .software = inputs.software,
          .software_file = inputs.software_file,
          .trace_key = inputs.trace_key,
          .own = {}};
}

}  // namespace

Inputs open_changed_inputs(const Scenario& scenario, const WhatIf& what) {
  return changed_inputs(scenario, open_inputs(scenario), what);
}

Inputs changed_inputs(const Scenario& scenario, const Inputs& opened, const WhatIf& what) {
  Inputs inputs = without_clusters(opened);
  for (const ClusterInput& cluster : opened.clusters) {
    inputs.clusters.push_back(changed(cluster, changes_of(what, cluster.topology)));
    const std::string narrow = narrow_front_in(inputs.clusters.back().topology);
    if (narrow.empty() || !narrow_front_in(cluster.topology).empty()) continue;
    inputs.warnings.push_back({Severity::warning, "", 0, 0, cluster.topology.name() + ": " + narrow,
                               "", "--scale pcie.bandwidth, too"});
  }
  with_hint_of_failed(what, [&] {
    if (!scenario.iteration) return fit_trace(scenario, inputs);
    for (const ClusterInput& cluster : inputs.clusters) {
      shape_of(*scenario.iteration, cluster.topology.gpu_count(), inputs.model);
    }
  });
  for (const auto& own : opened.own) {
    inputs.own.push_back(own ? std::make_shared<OpenedScenario>(OpenedScenario{
                                   own->scenario, changed_inputs(own->scenario, own->inputs, what)})
                             : nullptr);
  }
  return inputs;
}

std::vector<WhatIfCase> simulate_whatif(const Scenario& scenario, const Inputs& before,
                                        const Inputs& after, int workers) {
  const auto old = simulate(scenario, before, {.workers = workers}).cases;
  const auto fresh = simulate(scenario, after, {.workers = workers}).cases;
  std::vector<WhatIfCase> cases;
  for (std::size_t i = 0; i < old.size(); ++i) {
    const CaseName& name = old[i].name;
    cases.push_back({{name.topology, name.policy, name.routing, name.fidelity},
                     side_of(old[i]),
                     side_of(fresh[i])});
  }
  return cases;
}

std::string text_of(const WhatIf& what) {
  std::vector<std::string> words;
  for (const std::string& text : what.scale) words.push_back("--scale " + text);
  for (const std::string& text : what.slow) words.push_back("--slow " + text);
  for (const std::string& text : what.fail) words.push_back("--fail " + text);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string whatif_document(const Scenario& scenario, const Inputs& before, const WhatIf& what,
                            const std::vector<WhatIfCase>& cases, const std::string& version) {
  auto document = document_of_cases("moesim-whatif", scenario, before, version);
  document["scale"] = what.scale;
  document["slow"] = what.slow;
  document["fail"] = what.fail;
  document["cases"] = whatif_json(cases);
  return document.dump(1) + "\n";
}

}  // namespace moesim
