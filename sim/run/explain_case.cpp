// SPDX-License-Identifier: Apache-2.0
#include "sim/run/explain_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/report/case_report.h"
#include "sim/report/explain_text.h"
#include "sim/run/backends.h"
#include "sim/run/bounds.h"
#include "sim/run/forecast.h"
#include "sim/run/planning_notes.h"
#include "sim/run/result_file.h"

namespace moesim {

namespace {

/// In the first microbatch.
std::size_t place_of(const PlannedStep& planned, int layer) {
  return static_cast<std::size_t>(std::ranges::find(planned.layers, layer, &LayerWork::number) -
                                  planned.layers.begin());
}

std::vector<std::string> notes_of(const PolicyPlanner& steps, const PlannedStep& planned,
                                  const ClusterInput& cluster) {
  const LayerPlanner& planner = steps.planner().layer_planner();
  std::vector<std::string> notes;
  if (const std::string& why = planner.cannot_run(); !why.empty()) {
    notes.push_back(cannot_run_note(why));
  }
  const PlanningRecord record{static_cast<int>(cluster.warmup.size()) + 1,
                              planner.replans_in_warmup() + (planned.replanned() ? 1 : 0)};
  const bool iterations = !steps.planner().spec().only_layers;
  std::ranges::move(iterations ? planner.notes() : planning_notes(steps.planner(), cluster, record),
                    std::back_inserter(notes));
  if (iterations) {
    std::ranges::move(steps.planner().placement_notes(), std::back_inserter(notes));
  }
  return notes;
}

}  // namespace

ExplainedCase explain_case(const Scenario& scenario, const Inputs& inputs, int layer,
                           const std::vector<Fidelity>& fidelities) {
  const PolicyView view = view_of(scenario, inputs, 0);
  const ClusterInput& cluster = view.inputs.clusters[0];
  PolicyPlanner steps(view);
  // All layers, because some policies place a layer's experts by what tokens choose in others.
  const PlannedStep planned = steps.plan(0);
  const std::size_t place = place_of(planned, layer);
  ExplainedCase c;
  c.layer = layer;
  if (steps.planner().shape().grid.stages() > 1) {
    c.stage = std::make_shared<const ClusterInput>(
        stage_of(steps.planner(), planned.layers[place].stage, cluster));
  }
  const ClusterInput& on = c.stage ? *c.stage : cluster;
  const PlannedStep explained = steps.planner().layer_with_rows(planned, place);
  const auto backends = make_backends(fidelities, scenario.p2p_order, on);
  const PricedPlan priced(explained.plan, on.topology);
  if (const auto text = forecast(backends, priced, 1)) fmt::print(stderr, "{}\n", *text);
  std::vector<NamedBackend> named;
  for (std::size_t f = 0; f < fidelities.size(); ++f) {
    named.push_back({backend_name(fidelities[f], scenario.p2p_order), backends[f].get()});
  }
  c.explanation = explain(priced, on.gpus, named);
  c.change = explained.change;
  c.tokens_per_rank = explained.tokens / on.topology.gpu_count();
  c.notes = notes_of(steps, planned, cluster);
  return c;
}

std::string explain_header(const Scenario& scenario, const Inputs& inputs, const ExplainedCase& c,
                           const std::string& version) {
  const ClusterInput& cluster = inputs.clusters[0];
  std::string text = fmt::format(
      "# moesim {}\n# policy {} on {}: {}, hosts: {}, ep {}\n# model {}: hidden {}, {} experts, "
      "top-{}; trace {}\n# layer {} of {} {}{}, {} per rank, {}; simulated, nothing is measured\n",
      version, inputs.systems[0].name, cluster.topology.name(),
      counted(cluster.topology.gpu_count(), "GPU"), cluster.topology.host_count(), cluster.ep,
      inputs.model.name, inputs.model.hidden, inputs.model.experts, inputs.model.top_k,
      inputs.trace.info().name, c.layer,
      scenario.trains() ? "the first microbatch of iteration" : "step",
      asked_steps(scenario, cluster).first,
      cluster.warmup.empty() ? "" : fmt::format(" after a warm-up of {}", cluster.warmup.size()),
      counted(c.tokens_per_rank, "token"),
      scenario.backward ? "forward and backward" : "forward only");
  if (scenario.iteration && inputs.model.missing_of_whole().empty()) {
    text += "# without attention, which is a block of its own\n";
  }
  if (c.stage) {
    text += fmt::format("# on the {} of its pipeline stage\n",
                        counted(c.stage->topology.gpu_count(), "GPU"));
  }
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
                                       {"tokens_per_rank", c.tokens_per_rank},
                                       {"step", asked_steps(scenario, cluster).first},
                                       {"warmup_steps", cluster.warmup.size()},
                                       {"notes", c.notes},
                                       {"layer", c.layer},
                                       {"pass", scenario.backward ? "forward+backward" : "forward"},
                                       {"dropped_choices", c.change.dropped_choices},
                                       {"replaced_choices", c.change.replaced_choices}});
  result.update(explain_json(c.explanation, c.topology(cluster)));
  return result.dump(1) + "\n";
}

}  // namespace moesim
