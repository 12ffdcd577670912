// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/explain_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/compare/backends.h"
#include "sim/compare/forecast.h"
#include "sim/compare/planning_notes.h"
#include "sim/compare/result_file.h"
#include "sim/report/explain_text.h"

namespace moesim {

ExplainedCase explain_case(const Scenario& scenario, const Inputs& inputs, int layer,
                           const std::vector<Fidelity>& fidelities) {
  const ClusterInput& cluster = inputs.clusters[0];
  const Batch& batch = cluster.batches.batches[0];
  StepPlanner planner(inputs.systems[0], cluster.topology, inputs.model, inputs.trace,
                      inputs.planner_options(scenario, cluster));
  // All layers, since some policies place a layer's experts by what tokens choose in others.
  const StepPlan planned = planner.plan(batch, cluster.first_step);
  const auto place = std::ranges::find(inputs.layers, layer) - inputs.layers.begin();
  const StepPlan explained =
      planner.layer_with_rows(planned, batch, static_cast<std::size_t>(place));
  const auto backends = make_backends(fidelities, scenario.p2p_order, cluster);
  const PricedPlan priced(explained.plan, cluster.topology);
  if (const auto text = forecast(backends, priced, 1)) fmt::print(stderr, "{}\n", *text);
  std::vector<NamedBackend> named;
  for (std::size_t f = 0; f < fidelities.size(); ++f) {
    named.push_back({backend_name(fidelities[f], scenario.p2p_order), backends[f].get()});
  }
  const PlanningRecord record{static_cast<int>(cluster.warmup.size()) + 1,
                              planner.layers().replans_in_warmup() + (planned.replanned() ? 1 : 0)};
  return {inputs.trace.info().layers[static_cast<std::size_t>(layer)],
          explain(priced, cluster.gpus, named), explained.change,
          planning_notes(planner, cluster, record)};
}

std::string explain_header(const Scenario& scenario, const Inputs& inputs, const ExplainedCase& c,
                           const std::string& version) {
  const ClusterInput& cluster = inputs.clusters[0];
  std::string text = fmt::format(
      "# moesim {}\n# policy {} on {}: {} GPUs, hosts: {}, ep {}\n"
      "# model {}: hidden {}, {} experts, top-{}; trace {}\n"
      "# layer {} of step {}{}, {} tokens per rank, {}; simulated, nothing is measured\n",
      version, inputs.systems[0].name, cluster.topology.name(), cluster.topology.gpu_count(),
      cluster.topology.host_count(), cluster.ep, inputs.model.name, inputs.model.hidden,
      inputs.model.experts, inputs.model.top_k, inputs.trace.info().name, c.layer,
      cluster.first_step,
      cluster.warmup.empty() ? "" : fmt::format(" after a warm-up of {}", cluster.warmup.size()),
      cluster.batches.tokens_per_rank, scenario.backward ? "forward and backward" : "forward only");
  text += transport_text(inputs);
  for (const std::string& note : c.notes) {
    text += fmt::format("# note: {} {}\n", inputs.systems[0].name, note);
  }
  return text;
}

std::string explain_document(const Scenario& scenario, const Inputs& inputs, const ExplainedCase& c,
                             const std::string& version) {
  const ClusterInput& cluster = inputs.clusters[0];
  auto result = document_of_case("moesim-explanation", scenario, inputs, version);
  result.update(nlohmann::ordered_json{{"gpus", cluster.topology.gpu_count()},
                                       {"hosts", cluster.topology.host_count()},
                                       {"ep", cluster.ep},
                                       {"tokens_per_rank", cluster.batches.tokens_per_rank},
                                       {"step", cluster.first_step},
                                       {"warmup_steps", cluster.warmup.size()},
                                       {"notes", c.notes},
                                       {"layer", c.layer},
                                       {"pass", scenario.backward ? "forward+backward" : "forward"},
                                       {"dropped_choices", c.change.dropped_choices},
                                       {"replaced_choices", c.change.replaced_choices}});
  result.update(explain_json(c.explanation, cluster.topology));
  return result.dump(1) + "\n";
}

}  // namespace moesim
